"""Processes that a program forks are further programs on its node, in turn with it."""

import multiprocessing
import time

import pytest

import nicscope as ns
from nicscope.cli.app import main
from nicscope.errors import NicscopeError
from nicscope.studies.programs import ProgramError

HEAD = """
    import multiprocessing as mp
    import queue
    import sys
    import threading
    import time

"""
BY_NAME = (
    HEAD
    + """
    import pyverbs.cm_enums as cm
    import pyverbs.enums as e
    from pyverbs.addr import AH
    from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, UDParam
    from pyverbs.qp import QPCap, QPInitAttr

    PLACE = ("10.0.0.1", "7471")
    CAP = QPCap(max_recv_wr=4, max_send_wr=4)

    def passive(barrier):
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, cap=CAP)
        listener = CMID(AddrInfo(src=PLACE[0], src_service=PLACE[1], flags=cm.RAI_PASSIVE), init)
        listener.listen()
        barrier.wait()
        end = listener.get_request()
        mr = end.reg_msgs(64)
        end.post_recv(mr)
        end.accept()
        found = end.get_recv_comp()
        print("served", found.status, mr.read(found.byte_len, 0))
        end.disconnect()

    def active(barrier):
        barrier.wait()
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, cap=CAP)
        end = CMID(AddrInfo(src=PLACE[0], dst=PLACE[0], dst_service=PLACE[1]), init)
        end.connect()
        mr = end.reg_msgs(64)
        mr.write(b"by name", 7)
        end.post_send(mr, length=7)
        print("sent", end.get_send_comp().status)

    if __name__ == "__main__":
        fork = mp.get_context("fork")
        barrier = fork.Barrier(2, timeout=15)
        both = [fork.Process(target=each, args=(barrier,)) for each in (passive, active)]
        for each in both:
            each.start()
        for each in both:
            each.join()
        print([each.exitcode for each in both])
"""
)
BY_DATAGRAMS = (
    BY_NAME.split("    def passive")[0]
    + """
    def passive(barrier):
        channel = CMEventChannel()
        listener = CMID(channel, port_space=cm.RDMA_PS_UDP)
        info = AddrInfo(src=PLACE[0], src_service=PLACE[1], port_space=cm.RDMA_PS_UDP)
        listener.bind_addr(info)
        listener.listen()
        barrier.wait()
        event = CMEvent(channel)
        end = CMID(event, listen_id=listener)
        end.create_qp(QPInitAttr(qp_type=e.IBV_QPT_UD, cap=CAP))
        mr = end.reg_msgs(104)
        end.post_recv(mr)
        end.accept()
        found = end.get_recv_comp()
        print("served", found.status, mr.read(found.byte_len - 40, 40))
        way = AH(end.pd, wc=found, grh=mr.buf, port_num=1)
        end.post_ud_send(mr, way, rqpn=found.src_qp, length=4)
        end.get_send_comp()

    def active(barrier):
        barrier.wait()
        channel = CMEventChannel()
        end = CMID(channel, port_space=cm.RDMA_PS_UDP)
        info = AddrInfo(dst=PLACE[0], dst_service=PLACE[1], port_space=cm.RDMA_PS_UDP)
        end.resolve_addr(info)
        end.resolve_route()
        end.create_qp(QPInitAttr(qp_type=e.IBV_QPT_UD, cap=CAP))
        mr = end.reg_msgs(104)
        end.connect()
        names = [CMEvent(channel) for _ in range(3)]
        print([each.event_str().rpartition("_")[2] for each in names])
        told = UDParam(names[-1])
        end.post_recv(mr)
        mr.write(b"datagram", 8)
        end.post_ud_send(mr, AH(end.pd, attr=told.ah_attr), rqpn=told.qp_num, length=8)
        end.get_send_comp()
        print("answered", end.get_recv_comp().byte_len)
"""
    + "\n    if __name__"
    + BY_NAME.split("    if __name__")[1]
)


def said(capsys):
    return capsys.readouterr().out.splitlines()


def test_two_processes_find_each_other_by_name(program, capsys):
    times = set()
    for _ in range(2):
        [run] = ns.run_verbs(program("by_name", BY_NAME)).found.runs
        assert run.messages_out == 1
        times.add(run.elapsed_us)
        assert sorted(said(capsys)) == ["[0, 0]", "sent 0", "served 0 b'by name'"]
    assert len(times) == 1
    assert multiprocessing.Process.__module__ == "multiprocessing.context"
    assert time.sleep.__module__ == "time"


def test_so_do_two_for_datagrams(program, capsys):
    [run] = ns.run_verbs(program("by_datagrams", BY_DATAGRAMS)).found.runs
    assert run.messages_out == 2
    assert sorted(said(capsys)) == [
        *("['RESOLVED', 'RESOLVED', 'ESTABLISHED']", "[0, 0]"),
        *("answered 44", "served 0 b'datagram'"),
    ]


def test_processes_begin_on_a_node_of_several_too(program, capsys):
    nodes = {0: [program("by_name", BY_NAME)], 1: [program("ends", "print('other')")]}
    ns.run_verbs(nodes=nodes)
    told = ["[0, 0]", "other", "sent 0", "served 0 b'by name'"]
    assert sorted(said(capsys)) == told


WAYS = (
    HEAD
    + """
    def work(which, go, jobs, done, lock, total, end, count):
        go.wait()
        me = mp.current_process().name
        while (job := jobs.get()) is not None:
            with lock:
                total.append(job)
                time.sleep(0.001)
                assert total[-1] == job
            with count:
                count.value += 1
            done.put((which, job * job))
            jobs.task_done()
        jobs.task_done()
        end.send([which, me])
        sys.exit(which)

    if __name__ == "__main__":
        mp.set_start_method("spawn")
        go, jobs, done, lock, total = mp.Event(), mp.JoinableQueue(), mp.Queue(3), mp.RLock(), []
        pipes = [mp.Pipe() for _ in range(2)]
        count = mp.Value("i", 0)
        given = go, jobs, done, lock, total
        workers = [
            mp.Process(target=work, name=f"w{n}", args=(n, *given, pipes[n][1], count))
            for n in range(2)
        ]
        for each in workers:
            each.start()
        print([each.is_alive() for each in workers], go.is_set(), done.empty())
        for n in [*range(6), None, None]:
            jobs.put(n)
        go.set()
        print(sorted(done.get()[1] for _ in range(6)), sorted(total))
        jobs.join()
        print([each.recv() for each, _ in pipes], mp.current_process().name)
        while any(each.is_alive() for each in workers):
            pass
        print([each.exitcode for each in workers], len({each.pid for each in workers}), count.value)
"""
)


def test_what_processes_wait_by_works(program, capsys):
    ns.run_verbs(program("ways", WAYS))
    assert said(capsys) == [
        "[True, True] False True",
        "[0, 1, 4, 9, 16, 25] [0, 1, 2, 3, 4, 5]",
        "[[0, 'w0'], [1, 'w1']] MainProcess",
        "[0, 1] 2 6",
    ]


LATE = (
    HEAD
    + """
    from pyverbs.cq import CQ
    from pyverbs.device import Context

    def polls(told):
        with Context(name="nicscope0") as context, CQ(context, 4) as cq:
            while True:
                cq.poll()

    def breaks(barrier):
        try:
            barrier.wait()
        except threading.BrokenBarrierError:
            sys.exit("nobody came")

    if __name__ == "__main__":
        began = time.monotonic()
        one = mp.Process(target=polls, args=({},))
        two = mp.Process(target=breaks, args=(mp.Barrier(2, timeout=40),))
        one.start()
        two.start()
        one.join(0.05)
        print(one.is_alive(), one.exitcode, two.exitcode)
        one.terminate()
        one.join()
        print(one.is_alive(), one.exitcode)
        try:
            mp.Queue().get(timeout=20)
        except queue.Empty:
            print("none", two.exitcode)
        condition = mp.Condition()
        with condition:
            print(condition.wait(10), condition.wait_for(lambda: 7))
        two.join()
        print(two.exitcode, time.monotonic() - began < 10)
"""
)


def test_time_outs_pass_by_virtual_time_or_when_nobody_can_go_on(program, capsys):
    [run] = ns.run_verbs(program("late", LATE)).found.runs
    assert run.elapsed_us >= 50_000
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "True None None",
        "False -15",
        "none None",
        "False 7",
        "1 True",
    ]
    assert "nobody came" in told.err


def test_processes_that_wait_for_ever_are_told_so(program, capsys):
    text = HEAD + (
        """
    if __name__ == "__main__":
        waits = mp.Process(target=mp.Queue().get)
        waits.start()
        waits.join()
"""
    )
    path = program("waits", text)
    with pytest.raises(NicscopeError, match="no program can go on") as told:
        ns.run_verbs(path)
    assert "waits.py waits for Process-" in str(told.value)
    assert str(told.value).endswith("waits for an item of a Queue")
    assert main(["verbs", "run", path]) == 2
    assert "no program can go on" in capsys.readouterr().err.splitlines()[-1]
    with pytest.raises(NicscopeError, match=r"node 0 \(waits\.py\) waits for Process-"):
        ns.run_verbs(nodes={0: [path], 1: [program("ends", "")]})


def test_what_a_process_raises_is_its_own(program, capsys):
    text = HEAD + (
        """
    class Fails(mp.Process):
        def run(self):
            1 / 0

    if __name__ == "__main__":
        one = Fails(name="fails")
        one.start()
        one.join()
        print(one.exitcode)
"""
    )
    [run] = ns.run_verbs(program("fails", text)).found.runs
    told = capsys.readouterr()
    assert (run.status, told.out) == (0, "1\n")
    assert told.err.startswith("Process fails:\nTraceback")
    assert "ZeroDivisionError" in told.err


def test_what_a_process_opened_is_closed_when_it_ends(program, capsys):
    text = HEAD + (
        """
    from pyverbs.cmid import CMID, AddrInfo, CMEventChannel
    import pyverbs.cm_enums as cm

    def listens():
        end = CMID(CMEventChannel())
        end.bind_addr(AddrInfo(src="10.0.0.1", src_service="7", flags=cm.RAI_PASSIVE))
        end.listen()
        end.itself = end
        print("listens")

    if __name__ == "__main__":
        for _ in range(2):
            one = mp.Process(target=listens)
            one.start()
            one.join()
        listens()
        mp.Process(target=time.sleep, args=(1000,), daemon=True).start()
        mp.Process(target=print, args=("joined",)).start()
"""
    )
    ns.run_verbs(program("listens", text))
    assert said(capsys) == ["listens"] * 3 + ["joined"]


@pytest.mark.parametrize("pool", ["mp.Pool(2)", "mp.Manager()"])
def test_pools_of_processes_are_refused(program, pool):
    text = HEAD + f"    {pool}\n"
    with pytest.raises((NicscopeError, ProgramError), match="pools, managers and executors"):
        ns.run_verbs(program("pool", text))
