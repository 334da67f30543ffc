/* A program that waits until times of its own clocks, handles faults of its own, and blocks signals:
 * the name of the wait is its argument, and what is printed how long that was by its own clock. */
#define _GNU_SOURCE
#include <pthread.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { MS = 1000000, WAIT = 200 * MS, SECOND = 1000 * MS };

static uint64_t now(clockid_t which)
{
	struct timespec time;
	clock_gettime(which, &time);
	return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static struct timespec after(clockid_t which)
{
	uint64_t then = now(which) + WAIT;
	return (struct timespec){(time_t)(then / SECOND), (long)(then % SECOND)};
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static int faults;
static sigjmp_buf back;

static void fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	faults += number == SIGSEGV && info->si_addr == NULL;
	siglongjmp(back, 1);
}

static int wait_by(const char *name)
{
	struct timespec date = after(CLOCK_REALTIME), then = after(CLOCK_MONOTONIC);
	if (!strcmp(name, "cond")) {
		pthread_mutex_lock(&lock);
		return pthread_cond_timedwait(&cond, &lock, &date);
	}
	if (!strcmp(name, "clock")) {
		pthread_mutex_lock(&lock);
		return pthread_cond_clockwait(&cond, &lock, CLOCK_MONOTONIC, &then);
	}
	if (!strcmp(name, "sem"))
		return sem_init(&sem, 0, 0) || sem_timedwait(&sem, &date);
	if (!strcmp(name, "sleep"))
		return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
	if (!strcmp(name, "timer")) {
		struct itimerspec to = {{0, 0}, then};
		int timer = timerfd_create(CLOCK_MONOTONIC, 0);
		timerfd_settime(timer, TFD_TIMER_ABSTIME, &to, NULL);
		struct pollfd one = {timer, POLLIN, 0};
		return poll(&one, 1, 20000) != 1;
	}
	return -1;
}

int main(int argc, char **argv)
{
	struct sigaction to = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO}, was;
	if (argc > 1) {
		uint64_t before = now(CLOCK_MONOTONIC);
		wait_by(argv[1]);
		printf("%ld ms\n", (long)((now(CLOCK_MONOTONIC) - before) / MS));
		return 0;
	}
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	sigaction(SIGSEGV, &to, NULL);
	uint64_t first = __rdtsc();
	if (!sigsetjmp(back, 1))
		*(volatile int *)NULL = 1;
	uint64_t second = __rdtsc();
	sigaction(SIGSEGV, NULL, &was);
	printf("%d fault, %s handler, counter %s\n", faults, was.sa_sigaction == fault ? "its own" : "another",
	       second > first ? "went on" : "stood");
	signal(SIGSEGV, SIG_DFL);
	fflush(stdout);
	*(volatile int *)NULL = 1;
	return 0;
}
