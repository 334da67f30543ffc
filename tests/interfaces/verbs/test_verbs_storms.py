"""Hostile programs and bad networks: no foreign byte, each status as documented."""

import random

import msgspec
import pytest
from verbs_ends import ALL, End, open_context
from verbs_worlds import collected

from nicscope.interfaces.verbs import base
from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import PyverbsError, PyverbsRDMAError, World, use
from nicscope.interfaces.verbs.device import DM, AllocDmAttr
from nicscope.interfaces.verbs.mr import DMMR, MR, MW, PD, MWBind, MWBindInfo
from nicscope.interfaces.verbs.qp import QPAttr
from nicscope.interfaces.verbs.wr import SGE, RecvWR, SendWR
from nicscope.interfaces.verbs_device.device import Device
from nicscope.interfaces.verbs_device.fabric import SIZE as SIZE_OF_NIC
from suite import seeds

SIZE = 4096
SECRET = b"secret bytes of somebody else. " * 132
OK = e.IBV_WC_SUCCESS
LOCAL, ACCESS = e.IBV_WC_LOC_PROT_ERR, e.IBV_WC_REM_ACCESS_ERR


def world_of(**options):
    world = World(Device(**options))
    use(world)
    return world


@pytest.fixture(autouse=True)
def _nobodys_world():
    with collected():
        yield


def joined(left, right, **more):
    left.connect(right, **more)
    right.connect(left, **more)


def again(*ends):
    for end in ends:
        end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
    joined(*ends)


class Storm:
    """A victim with a secret and one open page, a stranger's region, and who attacks."""

    def __init__(self, world, seed):
        self.draw = random.Random(seed)
        self.victim, self.attacker = End(world), End(world)
        self.stranger = PD(open_context(world))
        self.secret = MR(self.stranger, SIZE, ALL)
        self.secret.write(SECRET, len(SECRET))
        self.closed = MR(self.victim.pd, SIZE, e.IBV_ACCESS_LOCAL_WRITE)
        self.closed.write(SECRET, len(SECRET))
        joined(self.attacker, self.victim)
        self.card = DM(self.attacker.context, AllocDmAttr(SIZE))

    def key(self, mr):
        """Its key, or one near it."""
        wrong = self.draw.choice((0, 0, 1, -1, 255, 256, -256, 1 << 16, 1 << 31))
        return (mr.rkey + wrong) & 0xFFFFFFFF, not wrong

    def remote(self):
        """Read, write or change a word where chance says; the status that this must have."""
        draw, open_ = self.draw, self.victim.mr
        opcode = draw.choice((e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ))
        mr = draw.choice((open_, self.secret, self.closed))
        rkey, is_right = self.key(mr)
        at = draw.choice((0, 64, SIZE - 8, SIZE, -1, draw.randint(-SIZE, SIZE)))
        length = draw.choice((1, 8, 64, SIZE))
        inside = 0 <= at <= SIZE - length
        self.attacker.send(length, opcode=opcode, remote=(rkey, mr.buf + at))
        return OK if is_right and mr is open_ and inside else ACCESS

    def local(self):
        """Send from memory that is another's, or not as large as that."""
        draw, own = self.draw, self.attacker.mr
        mr = draw.choice((own, self.secret, self.closed))
        lkey, is_right = self.key(mr)
        at, length = draw.choice(((0, 64), (SIZE - 8, 64), (-8, 64), (0, SIZE)))
        inside = at >= 0 and at + length <= SIZE
        good = is_right and mr is own and inside
        opcode, target = e.IBV_WR_RDMA_WRITE, self.victim.target()
        where = mr.buf + at - own.buf
        self.attacker.send(length, where, opcode=opcode, remote=target, lkey=lkey)
        return OK if good else LOCAL

    def word(self):
        """A word that stands askew, or is somebody else's."""
        draw, at = self.draw, self.draw.choice((0, 8, 1, 4, 4088, 4092))
        rkey, is_right = self.key(self.victim.mr)
        wr = SendWR(
            opcode=draw.choice((e.IBV_WR_ATOMIC_FETCH_AND_ADD, e.IBV_WR_ATOMIC_CMP_AND_SWP)),
            num_sge=1,
            sg=[self.attacker.piece(8)],
        )
        wr.set_wr_atomic(rkey, self.victim.mr.buf + at, draw.getrandbits(64), 1)
        self.attacker.qp.post_send(wr)
        if at % 8:
            return e.IBV_WC_REM_INV_REQ_ERR
        return OK if is_right else ACCESS

    def receive(self):
        """Have the victim's message come into what is not the attacker's."""
        mr = self.draw.choice((self.attacker.mr, self.secret, self.closed))
        good = mr is self.attacker.mr
        self.attacker.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(mr.buf, 64, mr.lkey)]))
        self.victim.send(64)
        assert self.attacker.completion().status == (OK if good else LOCAL)
        assert self.victim.completion().status == (OK if good else e.IBV_WC_REM_OP_ERR)
        again(self.attacker, self.victim)

    def call(self):
        """Name objects and memory of others to the verbs themselves; the number that each gives."""
        draw, pd = self.draw, self.attacker.pd
        info = MWBindInfo(self.secret, self.secret.buf, 64, e.IBV_ACCESS_REMOTE_READ)
        calls = (
            (22, lambda: PD(self.attacker.context, handle=draw.randint(1 << 20, 1 << 30))),
            (22, lambda: MR(pd, handle=draw.randint(1 << 20, 1 << 30), address=self.secret.buf)),
            (14, lambda: MR(pd, SIZE, ALL, address=draw.randint(1 << 50, 1 << 60))),
            (22, lambda: MR(pd, SIZE, e.IBV_ACCESS_REMOTE_WRITE)),
            (22, lambda: DMMR(pd, SIZE, ALL, self.card, 4)),
            (1, lambda: self.attacker.qp.bind_mw(MW(pd, e.IBV_MW_TYPE_1), MWBind(info, 0))),
            (1, lambda: pd.advise_mr(0, 1, [SGE(self.secret.buf, 64, self.secret.lkey)])),
            (22, lambda: self.attacker.mr.rereg(1 << 20)),
            (22, lambda: self.attacker.qp.modify(QPAttr(qp_state=e.IBV_QPS_RTR), 1)),
        )
        wanted, made = draw.choice(calls)
        with pytest.raises(PyverbsError) as caught:
            made()
        if isinstance(caught.value, PyverbsRDMAError):
            assert caught.value.error_code == wanted, caught.value

    def one(self):
        """Something, by chance; nothing that was to be kept is known or changed after it."""
        fill = b"attack" * (SIZE // 6)
        self.attacker.mr.write(fill, len(fill))
        kind = self.draw.choice((self.remote, self.remote, self.local, self.word, self.call, None))
        if kind is None:
            self.receive()
        elif (status := kind()) is not None:
            assert self.attacker.completion().status == status
            if status != OK:
                assert self.attacker.mr.read(len(fill), 0) == fill
                assert self.attacker.qp.qp_state == e.IBV_QPS_ERR
                again(self.attacker, self.victim)
        assert b"secret" not in self.attacker.mr.read(SIZE, 0)

    def kept(self):
        """Nobody has changed what is not open."""
        assert self.secret.read(len(SECRET), 0) == SECRET
        assert self.closed.read(len(SECRET), 0) == SECRET
        assert b"secret" not in self.victim.mr.read(SIZE, 0)


PIECES, EACH = 12, 400  # 5,000 verbs in the gate


@pytest.mark.compiled
@pytest.mark.parametrize("seed", seeds(PIECES, 20 * PIECES))
def test_a_storm_of_hostile_verbs_reaches_nothing(seed):
    storm = Storm(world_of(), seed)
    for _ in range(EACH):
        storm.one()
    storm.kept()


@pytest.mark.parametrize("design", [None, "utlb", "rnic"])
def test_a_gust_of_hostile_verbs_reaches_nothing(design):
    storm = Storm(world_of(**({} if design is None else {"design": design})), 10**6)
    for _ in range(30):
        storm.one()
    storm.kept()


def test_a_server_that_leaks_registrations_ends_with_enomem_and_goes_on_when_it_closes_them():
    world = world_of(size=msgspec.structs.replace(SIZE_OF_NIC, regions=64))
    pd, address, leaked = PD(open_context(world)), base.mmap(length=SIZE), []

    def leak():
        while True:
            leaked.append(MR(pd, SIZE, 1, address=address))

    with pytest.raises(PyverbsRDMAError) as caught:
        leak()
    assert caught.value.error_code == 12
    assert 32 < len(leaked) <= 64
    for mr in leaked[:3]:
        mr.close()
    assert MR(pd, SIZE, 1, address=address).lkey not in {mr.lkey for mr in leaked[3:]}
