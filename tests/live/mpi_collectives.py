"""Processes of MPI: collectives, one-sided operations and a long exchange, each checked."""

from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
size, rank = world.size, world.rank
after, before = (rank + 1) % size, (rank - 1) % size

summed = array("d", bytes(8 * 5000))
world.Allreduce(array("d", [rank] * 5000), summed)
assert summed == array("d", [sum(range(size))] * 5000)
assert world.allgather(rank) == list(range(size))
assert world.alltoall([rank * 10 + i for i in range(size)]) == [i * 10 + rank for i in range(size)]
assert world.bcast(b"x" * 100_000 if rank == 0 else None) == b"x" * 100_000

memory = array("q", [0] * 4)
window = MPI.Win.Create(memory, 8, comm=world)
window.Fence(0)
window.Put(array("q", [rank + 1]), after, 0)
window.Accumulate(array("q", [1]), 0, 1)
window.Fence(0)
assert memory[0] == before + 1
assert rank or memory[1] == size
window.Lock(0)
window.Fetch_and_op(array("q", [1]), array("q", [0]), 0, 2)
window.Unlock(0)
world.Barrier()
got = array("q", [0])
window.Lock(0)
window.Get(got, 0, 2)
window.Unlock(0)
assert got[0] == size
window.Free()

sent = array("i", range(300_000))
come = array("i", bytes(4 * 300_000))
world.Sendrecv(sent, after, recvbuf=come, source=before)
assert come == sent
print("all is as it should be", rank, flush=True)
