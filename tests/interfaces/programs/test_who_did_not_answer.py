"""What does not come is told with where the others stand, and with what was sent in vain."""

import pytest
from every_interface import FACES, place
from failures import failure

from nicscope.cli.app import main
from nicscope.errors import WaitTimeoutError
from nicscope.interfaces import mini, trapeze, unet, via, vmmc
from nicscope.interfaces.via.descriptor import VipError
from program_results import results_of

EVERY = pytest.mark.parametrize("name", FACES)


@EVERY
def test_a_wait_that_ends_in_time_says_where_the_others_stand(name):
    face = FACES[name]

    async def gives_up(given):
        await face.wait(await face.open(given), 50)

    async def waits(given):
        await face.wait(await face.open(given))  # in vain

    error = failure(face.cluster(), gives_up, waits, kind=TimeoutError)

    first, other = str(error).splitlines()
    assert "process 0 of node 0" not in other
    assert other.startswith(f"  process 0 of node 1, waits(): waits in {face.call}, ")
    assert place(waits, "in vain") in other
    assert first.endswith("nothing has come") or "in time" in first


@EVERY
def test_a_wait_whose_end_is_minded_tells_nobody(name):
    face = FACES[name]

    async def goes_on(given):
        end = await face.open(given)
        with pytest.raises(TimeoutError) as caught:
            await face.wait(end, 50)
        assert caught.value.stands == ()
        return True

    assert results_of(face.cluster(), goes_on) == [True]


@EVERY
def test_a_run_that_stops_at_a_time_reports_where_programs_stand(name):
    face = FACES[name]

    async def waits(given):
        await face.wait(await face.open(given))  # in vain

    async def ends(_):
        pass

    cluster = face.cluster()
    cluster.start(0, waits)
    cluster.start(1, ends)
    cluster.run(until_us=500)

    [stands] = cluster.report().remarks
    assert stands.startswith(f"process 0 of node 0, waits(): waits in {face.call}, ")
    assert stands in " ".join(str(cluster.report()).split())
    assert stands.split(",")[0] in cluster.report()._repr_html_()


def test_the_command_says_of_a_wait_where_the_others_stand(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(
        "from nicscope import Cluster\n"
        "async def waits(endpoint):\n    await endpoint.notification()\n"
        "async def ends(endpoint):\n    await endpoint.notification(timeout_us=5)\n"
        "cluster = Cluster('utlb')\ncluster.start(0, ends)\ncluster.start(1, waits)\n"
    )

    assert main(["simulate", str(path)]) == 2

    said = capsys.readouterr().err
    assert "has waited long enough" in said
    assert "\n  process 0 of node 1, waits(): waits in endpoint.notification()" in said


async def sends_to_no_tag(process):
    endpoint = await process.open()
    await endpoint.send(99, b"hello")
    return (await endpoint.sent()).status


async def receives(process):
    endpoint = await process.open("there")
    await endpoint.receive(timeout_us=5000)


NO_TAG = "1 message to tag 99 was dropped: nobody has that tag"


def test_a_message_to_a_tag_that_nobody_has_is_in_the_report():
    cluster = unet.Cluster()
    assert results_of(cluster, sends_to_no_tag) == ["tag not registered"]
    assert cluster.report().remarks == [f"process 0 of node 0, sends_to_no_tag(): {NO_TAG}"]
    assert NO_TAG in " ".join(str(cluster.report()).split())


def test_who_waits_hears_of_a_message_to_no_tag_whether_it_is_its_own_or_anothers():
    async def waits(process):
        endpoint = await process.open()
        await endpoint.send(99, b"hello")
        await endpoint.sent()
        await endpoint.receive()

    assert NO_TAG in str(failure(unet.Cluster(), waits))
    error = failure(unet.Cluster(), sends_to_no_tag, receives)
    assert f"\n  process 0 of node 0, sends_to_no_tag(): has ended; {NO_TAG}" in str(error)


def test_a_message_to_an_endpoint_that_closes_under_way_is_told_of():
    sleeps = {}

    async def sends(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "there")
        await process.sleep(100)
        await endpoint.send(tag, endpoint.allocate(1000))
        status = (await endpoint.sent()).status
        await process.sleep(1000)
        return status

    async def closes(process):
        endpoint = await process.open("there")
        await endpoint.provide(endpoint.allocate(4096))
        await process.sleep(sleeps["us"])
        await endpoint.close()

    told = []
    for sleeps["us"] in (102, 110, 120, 130, 140, 150):
        cluster = unet.Cluster()
        [status, _] = results_of(cluster, sends, closes)
        delivered = cluster.report().total.received.delivered
        told.append((status, delivered, *cluster.report().remarks))

    refused = "refused where it came: nobody there has that tag any more"
    assert any(status == "done" and not came for status, came, *_ in told)
    for status, came, *remarks in told:
        assert (status != "done" or not came) == any("nobody" in each for each in remarks)
        if status == "done" and not came:
            assert remarks[0].endswith(refused)


def test_a_store_that_failed_and_was_not_looked_at_is_told_of():
    async def stores(endpoint):
        table = await endpoint.import_buffer(1, "table")
        await endpoint.sleep(1000)
        await endpoint.wait(await endpoint.store(table, endpoint.allocate(8)))

    async def takes_back(endpoint):
        exported = await endpoint.export(endpoint.allocate(4096), "table")
        await endpoint.sleep(700)
        await endpoint.unexport(exported)
        await endpoint.notification()

    error = failure(vmmc.Cluster(), stores, takes_back)

    said = "stores(): has ended; 1 send of its port 1 ended as 'rejected'"
    assert said in str(error)


def test_a_message_of_trapeze_that_no_program_receives_is_told_of():
    async def sends(endpoint):
        await endpoint.send(1)
        await endpoint.receive()

    async def ends(endpoint):
        await endpoint.compute(1)

    nobody = "node 1: 1 message was not received: "
    assert f"\n  {nobody}no program runs there" in str(failure(trapeze.Cluster("p6-natoma"), sends))
    cluster = trapeze.Cluster("p6-natoma")
    assert f"\n  {nobody}its program has ended" in str(failure(cluster, sends, ends))
    assert cluster.report().remarks == [f"{nobody}its program has ended"]


def test_what_came_for_a_program_that_has_ended_is_told_of():
    async def asks(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "there")
        await endpoint.send(tag, b"one")
        await endpoint.receive()

    async def leaves(process):
        await process.open("there")
        await process.sleep(500)

    error = failure(unet.Cluster(), asks, leaves)

    assert "leaves(): has ended; 1 message for it was not received" in str(error)


async def connects(process):
    endpoint = await process.open()
    await endpoint.connect(1, "there", timeout_us=400)


async def opens_another(process):
    endpoint = await process.open("here")
    await endpoint.receive()


async def ends(_):
    pass


def test_a_connect_in_vain_says_what_that_node_has_and_does():
    told = str(failure(unet.Cluster(), connects, opens_another, kind=WaitTimeoutError))
    assert "node 1 has opened no endpoint 'there' in 400 us (timeout_us=), but 'here'\n" in told
    assert "process 0 of node 1, opens_another(): waits in endpoint.receive()" in told

    told = str(failure(unet.Cluster(), connects, kind=WaitTimeoutError))
    assert told.endswith("nor any other with a name; no program runs there")
    told = str(failure(unet.Cluster(), connects, ends, kind=WaitTimeoutError))
    assert told.endswith("nor any other with a name; its program has ended")


def test_an_import_and_a_name_in_vain_say_what_there_is():
    async def imports(endpoint):
        await endpoint.import_buffer(1, "there", patience_us=400)

    async def exports(endpoint):
        await endpoint.export(endpoint.allocate(8), "here")

    told = str(failure(vmmc.Cluster(), imports, exports, kind=WaitTimeoutError))
    said = "node 1 has not exported 'there' in 400 us (patience_us=), but 'here'; "
    assert told.startswith(f"{said}its program has ended")

    async def finds(endpoint):
        await endpoint.find("there", timeout_us=400)

    async def registers(endpoint):
        await endpoint.register(endpoint.allocate(8), name="here")

    assert "(published: 'here')" in str(failure(mini.Cluster(), finds, registers))


def test_a_connection_that_nobody_waits_for_says_that_no_program_does():
    async def asks(host):
        nic = await host.open_nic()
        vi = await nic.create_vi(await nic.create_ptag())
        await nic.connect_request(vi, 1, "there", 400)

    assert str(failure(via.Cluster(), asks, kind=VipError)) == (
        "VIP_NO_MATCH: nobody on node 1 waits for 'there'; no program runs there"
    )
