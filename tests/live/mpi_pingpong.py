"""A ping-pong of two processes by MPI; ``mpirun`` runs it with the system's Python."""

from mpi4py import MPI

world = MPI.COMM_WORLD
for size in (8, 4096, 200_000):
    data, got = bytes(range(250)) * (size // 250 + 1), bytearray(size)
    data = data[:size]
    for _ in range(5):
        if world.Get_rank() == 0:
            world.Send(data, 1)
            world.Recv(got, 1)
            assert got == data
        else:
            world.Recv(got, 0)
            world.Send(got, 0)
print("all bytes came back")
