/* Processes of MPI in a ring: a sum of all, and a long exchange with both neighbours. */
#include <mpi.h>
#include <stdio.h>

enum { LENGTH = 200000 };
static int sent[LENGTH], come[LENGTH];

int main(int argc, char **argv)
{
	int rank, size, sum, wrong = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	int before = (rank + size - 1) % size;
	for (int i = 0; i < LENGTH; i++)
		sent[i] = i * (rank + 1);
	MPI_Sendrecv(sent, LENGTH, MPI_INT, (rank + 1) % size, 0, come, LENGTH, MPI_INT, before, 0, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	for (int i = 0; i < LENGTH; i++)
		wrong += come[i] != i * (before + 1);
	printf("sum %d, %d wrong\n", sum, wrong);
	MPI_Finalize();
	return wrong != 0;
}
