/* A program that looks at clocks: none goes back, and the counter runs as the clocks do. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { LOOKS = 2000 };

static uint64_t ns_of(clockid_t which)
{
	struct timespec now;
	clock_gettime(which, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int look(double khz)
{
	uint64_t first_ns = ns_of(CLOCK_MONOTONIC), first = __rdtsc(), ns = first_ns, counter = first;
	for (int i = 0; i < LOOKS; i++) {
		unsigned processor;
		uint64_t next_ns = ns_of(i % 2 ? CLOCK_MONOTONIC : CLOCK_MONOTONIC_RAW);
		uint64_t next = i % 3 ? __rdtsc() : __rdtscp(&processor);
		if (next_ns < ns || next < counter)
			return 2;
		ns = next_ns, counter = next;
	}
	double ratio = (double)(counter - first) / ((double)(ns - first_ns) * khz / 1e6);
	struct timeval wall;
	gettimeofday(&wall, NULL);
	if (labs((long)(wall.tv_sec - time(NULL))) > 1)
		return 3;
	printf("%.4f of the counter, %llu ns for %d looks\n", ratio, (unsigned long long)(ns - first_ns), LOOKS);
	return ratio > 0.9 && ratio < 1.1 ? 0 : 4;
}

int main(int argc, char **argv)
{
	double khz = argc > 1 ? atof(argv[1]) : 1e6;
	int found = look(khz), status;
	if (found)
		return found;
	pid_t child = fork();
	if (child == 0)
		_exit(look(khz));
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
}
