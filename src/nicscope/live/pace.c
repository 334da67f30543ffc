/* Preloaded into programs that are paced: their clocks show the machine's virtual time, the time
 * stamp counter too, which the processor is told to trap. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "layout.h"

#define EXPORT __attribute__((visibility("default")))
enum { VDSO_BYTES = 1 << 15, NS_PER_S = 1000000000, NS_PER_LOOK = 25 };
enum { PATIENCE = 1 << 12 }; /* looks at a time that stands, until it is asked whether anybody moves it */

static struct live_pace *pace; /* NULL: clocks are as always */
static struct live_clock none, *own = &none; /* what this process was shown last, for the machine too */
static uint64_t epoch; /* the date at which virtual time began */
static uintptr_t vdso;
static struct sigaction own_handler; /* of the program, for faults that are its own */

static uint64_t real_ns(clockid_t which)
{
	struct timespec now;
	syscall(SYS_clock_gettime, which, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Where the machine keeps the time, and has locked it for as long as it lives. */
static char path[PATH_MAX];
static ino_t inode;
static uint64_t over_since; /* ns: the machine has gone, and time passes as real time from there on; 0: it lives */

static int is_over(void)
{
	struct stat now;
	int wrong = errno, file = open(path, O_RDONLY | O_CLOEXEC);
	int found = file < 0 ? errno == ENOENT
			     : fstat(file, &now) == 0 && (now.st_ino != inode || flock(file, LOCK_SH | LOCK_NB) == 0);
	if (file >= 0)
		close(file);
	errno = wrong;
	return found;
}

/* Whether the machine has gone, which is asked seldom. */
static int has_gone(uint32_t *looks)
{
	if (__atomic_load_n(&over_since, __ATOMIC_RELAXED))
		return 1;
	if (__atomic_add_fetch(looks, 1, __ATOMIC_RELAXED) % PATIENCE || !is_over())
		return 0;
	__atomic_store_n(&over_since, real_ns(CLOCK_MONOTONIC), __ATOMIC_RELAXED);
	return 1;
}

/* No process goes back in time.  To look takes a little of it (assumed: what a call to the vDSO takes),
 * so that a program which does nothing else gets on; the machine's time follows when it posts. */
static uint64_t virtual_ns(void)
{
	static uint64_t before;
	static uint32_t looks;
	uint64_t turn, now, idle;
	uint32_t tries = 0; /* it may have been killed while it wrote */
	for (;;) {
		turn = __atomic_load_n(&pace->turn, __ATOMIC_SEQ_CST);
		now = __atomic_load_n(&pace->now, __ATOMIC_SEQ_CST);
		idle = __atomic_load_n(&pace->idle_since, __ATOMIC_SEQ_CST);
		if ((!(turn & 1) && turn == __atomic_load_n(&pace->turn, __ATOMIC_SEQ_CST)) || has_gone(&tries))
			break;
		sched_yield();
	}
	if (now != __atomic_exchange_n(&before, now, __ATOMIC_RELAXED))
		__atomic_store_n(&looks, 0, __ATOMIC_RELAXED);
	else if (has_gone(&looks) && !idle)
		idle = __atomic_load_n(&over_since, __ATOMIC_RELAXED);
	if (idle)
		now += real_ns(CLOCK_MONOTONIC) - idle;
	uint64_t shown = __atomic_load_n(&own->shown, __ATOMIC_RELAXED), next;
	do
		next = shown + NS_PER_LOOK > now ? shown + NS_PER_LOOK : now;
	while (!__atomic_compare_exchange_n(&own->shown, &shown, next, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return next;
}

static int is_wall(clockid_t which)
{
	return which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE || which == CLOCK_TAI;
}

static int is_virtual(clockid_t which)
{
	return is_wall(which) || which == CLOCK_MONOTONIC || which == CLOCK_MONOTONIC_RAW ||
	       which == CLOCK_MONOTONIC_COARSE || which == CLOCK_BOOTTIME;
}

EXPORT int clock_gettime(clockid_t which, struct timespec *to)
{
	if (!pace || !is_virtual(which))
		return (int)syscall(SYS_clock_gettime, which, to);
	uint64_t now = virtual_ns() + (is_wall(which) ? epoch : 0);
	*to = (struct timespec){(time_t)(now / NS_PER_S), (long)(now % NS_PER_S)};
	return 0;
}

EXPORT int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	*to = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
	if (zone)
		memset(zone, 0, sizeof(struct timezone));
	return 0;
}

EXPORT time_t time(time_t *to)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (to)
		*to = now.tv_sec;
	return now.tv_sec;
}

/* What the counter holds, which the kernel's own clocks need as it is. */
static uint64_t real_counter(void)
{
	prctl(PR_SET_TSC, PR_TSC_ENABLE);
	uint64_t found = __builtin_ia32_rdtsc();
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	return found;
}

static uint64_t counter_at(uintptr_t from)
{
	if (vdso && from - vdso < VDSO_BYTES)
		return real_counter();
	return (uint64_t)((unsigned __int128)virtual_ns() * pace->khz / 1000000);
}

/* A fault of the program's own: what it has installed is called as the kernel would. */
static void pass_on(int number, siginfo_t *info, void *context)
{
	struct sigaction own_way = own_handler;
	sigset_t mask;
	if (!(own_way.sa_flags & SA_SIGINFO) && (own_way.sa_handler == SIG_DFL || own_way.sa_handler == SIG_IGN)) {
		struct sigaction usual = {.sa_handler = SIG_DFL};
		((__typeof__(sigaction) *)dlsym(RTLD_NEXT, "sigaction"))(number, &usual, NULL); /* it comes again */
		return;
	}
	if (own_way.sa_flags & (int)SA_RESETHAND)
		own_handler = (struct sigaction){.sa_handler = SIG_DFL};
	pthread_sigmask(SIG_BLOCK, &own_way.sa_mask, &mask);
	if (own_way.sa_flags & SA_SIGINFO)
		own_way.sa_sigaction(number, info, context);
	else
		own_way.sa_handler(number);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void trapped(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	const uint8_t *at = (const uint8_t *)registers[REG_RIP];
	int wrong = errno, is_refused = info->si_code == SI_KERNEL; /* an instruction, not an address */
	int is_plain = is_refused && at[0] == 0x0F && at[1] == 0x31;
	int is_numbered = is_refused && at[0] == 0x0F && at[1] == 0x01 && at[2] == 0xF9;
	if (is_plain || is_numbered) {
		uint64_t counter = counter_at((uintptr_t)at);
		registers[REG_RAX] = (greg_t)(uint32_t)counter;
		registers[REG_RDX] = (greg_t)(counter >> 32);
		if (is_numbered)
			registers[REG_RCX] = 0;
		registers[REG_RIP] += is_plain ? 2 : 3;
		errno = wrong;
		return;
	}
	errno = wrong;
	pass_on(number, info, context);
}

/* ---- Signals: the trap stays installed and is never blocked, whatever the program asks for ---- */

#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

static int install(int on_stack)
{
	struct sigaction traps = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER | on_stack};
	return NEXT(sigaction)(SIGSEGV, &traps, NULL);
}

EXPORT int sigaction(int number, const struct sigaction *restrict to, struct sigaction *restrict was)
{
	struct sigaction open;
	if (pace && number == SIGSEGV) {
		struct sigaction held = own_handler;
		if (to) {
			own_handler = *to;
			install(to->sa_flags & SA_ONSTACK);
		}
		if (was)
			*was = held;
		return 0;
	}
	if (pace && to) {
		open = *to;
		sigdelset(&open.sa_mask, SIGSEGV);
		to = &open;
	}
	return NEXT(sigaction)(number, to, was);
}

EXPORT sighandler_t signal(int number, sighandler_t handler)
{
	struct sigaction to = {.sa_handler = handler, .sa_flags = SA_RESTART}, was;
	if (!pace || number != SIGSEGV)
		return NEXT(signal)(number, handler);
	sigaction(number, &to, &was);
	return was.sa_handler;
}

static const sigset_t *without_trap(int how, const sigset_t *set, sigset_t *open)
{
	if (!pace || !set || how == SIG_UNBLOCK)
		return set;
	*open = *set;
	sigdelset(open, SIGSEGV);
	return open;
}

EXPORT int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict was)
{
	sigset_t open;
	return NEXT(pthread_sigmask)(how, without_trap(how, set, &open), was);
}

EXPORT int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict was)
{
	sigset_t open;
	return NEXT(sigprocmask)(how, without_trap(how, set, &open), was);
}

/* ---- Waits until a time: the kernel's is another than the one that the program knows ---- */

/* Rounds in which virtual time may stand, as it does when its machine has ended, or has no processor:
 * so each takes at least twice as long as the one before it. */
enum { ROUNDS = 8, STANDS_NS = 1000, ROUND_NS = 1000000 };
struct waited { uint64_t left; int rounds; };

static uint64_t ns_of(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec;
}

/* How long it is until then; no clock but that of dates is past half of the present date. */
static uint64_t left_until(const struct timespec *deadline)
{
	uint64_t then = ns_of(deadline), now = virtual_ns() + (then > epoch / 2 ? epoch : 0);
	return then > now ? then - now : 0;
}

static struct timespec real_time(const struct timespec *deadline, const struct waited *waited)
{
	uint64_t left = left_until(deadline), least = waited->rounds ? (uint64_t)ROUND_NS << waited->rounds : 0;
	uint64_t real = real_ns(ns_of(deadline) > epoch / 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC) + (left > least ? left : least);
	return (struct timespec){(time_t)(real / NS_PER_S), (long)(real % NS_PER_S)};
}

/* Whether a wait that has ended has to go on, as by the program's own clock it is not yet then. */
static int is_early(const struct timespec *deadline, struct waited *waited)
{
	uint64_t left = left_until(deadline);
	waited->rounds += left && left + STANDS_NS > waited->left;
	waited->left = left;
	return left && waited->rounds < ROUNDS;
}

/* Calls that wait until ``then``, of which ``is_over`` says whether it is: again, if by the program's
 * own clock it is not. */
#define UNTIL(name, version, parameters, is_over, ...)                                                 \
	EXPORT int name parameters                                                                     \
	{                                                                                              \
		static __typeof__(name) *next;                                                         \
		if (!next)                                                                             \
			next = (__typeof__(name) *)dlvsym(RTLD_NEXT, #name, version);                  \
		const struct timespec *deadline = then;                                                \
		struct timespec real;                                                                  \
		struct waited waited = {UINT64_MAX, 0};                                                \
		for (;;) {                                                                             \
			if (pace && deadline) {                                                        \
				real = real_time(deadline, &waited);                                   \
				then = &real;                                                          \
			}                                                                              \
			int found = next(__VA_ARGS__);                                                 \
			if (!pace || !deadline || !(is_over) || !is_early(deadline, &waited))          \
				return found;                                                          \
		}                                                                                      \
	}
#define TIMED_OUT found == ETIMEDOUT
#define FAILED_BY_TIME found && errno == ETIMEDOUT

typedef const struct timespec *restrict until;
UNTIL(pthread_cond_timedwait, "GLIBC_2.3.2",
      (pthread_cond_t *restrict cond, pthread_mutex_t *restrict lock, until then), TIMED_OUT, cond, lock, then)
UNTIL(pthread_cond_clockwait, "GLIBC_2.34",
      (pthread_cond_t *restrict cond, pthread_mutex_t *restrict lock, clockid_t which, until then), TIMED_OUT,
      cond, lock, which, then)
UNTIL(pthread_mutex_timedlock, "GLIBC_2.34", (pthread_mutex_t *restrict lock, until then), TIMED_OUT, lock, then)
UNTIL(pthread_mutex_clocklock, "GLIBC_2.34", (pthread_mutex_t *restrict lock, clockid_t which, until then), TIMED_OUT,
      lock, which, then)
UNTIL(pthread_rwlock_timedrdlock, "GLIBC_2.34", (pthread_rwlock_t *restrict lock, until then), TIMED_OUT, lock, then)
UNTIL(pthread_rwlock_timedwrlock, "GLIBC_2.34", (pthread_rwlock_t *restrict lock, until then), TIMED_OUT, lock, then)
UNTIL(sem_timedwait, "GLIBC_2.34", (sem_t *restrict sem, until then), FAILED_BY_TIME, sem, then)
UNTIL(sem_clockwait, "GLIBC_2.34", (sem_t *restrict sem, clockid_t which, until then), FAILED_BY_TIME, sem, which, then)

static int sleep_until(clockid_t which, int flags, const struct timespec *then, struct timespec *rest)
{
	return (int)syscall(SYS_clock_nanosleep, which, flags, then, rest) ? errno : 0;
}

EXPORT int clock_nanosleep(clockid_t which, int flags, const struct timespec *then, struct timespec *rest)
{
	int found, wrong = errno, is_moved = pace && flags & TIMER_ABSTIME && is_virtual(which);
	struct waited waited = {UINT64_MAX, 0};
	do {
		struct timespec real = is_moved ? real_time(then, &waited) : *then;
		found = sleep_until(which, flags, &real, rest);
	} while (!found && is_moved && is_early(then, &waited));
	errno = wrong;
	return found;
}

/* Timers are begun as if they were to run for as long as it is until then. */
static const struct itimerspec *from_now(int *flags, int absolute, const struct itimerspec *to, struct itimerspec *moved)
{
	if (!pace || !(*flags & absolute) || !ns_of(&to->it_value))
		return to;
	uint64_t left = left_until(&to->it_value);
	left = left ? left : 1;
	*moved = (struct itimerspec){to->it_interval, {(time_t)(left / NS_PER_S), (long)(left % NS_PER_S)}};
	*flags &= ~absolute;
	return moved;
}

EXPORT int timerfd_settime(int timer, int flags, const struct itimerspec *to, struct itimerspec *was)
{
	struct itimerspec moved;
	to = from_now(&flags, TFD_TIMER_ABSTIME, to, &moved);
	return NEXT(timerfd_settime)(timer, flags, to, was);
}

EXPORT int timer_settime(timer_t timer, int flags, const struct itimerspec *restrict to, struct itimerspec *restrict was)
{
	struct itimerspec moved;
	to = from_now(&flags, TIMER_ABSTIME, to, &moved);
	return NEXT(timer_settime)(timer, flags, to, was);
}

static int is_gone(uint64_t pid)
{
	return kill((pid_t)pid, 0) && errno == ESRCH;
}

/* A process's own place among the clocks: the one that it had before it became another program, or
 * where one is free. */
static void take_clock(void)
{
	struct live_clock *clocks = (struct live_clock *)(pace + 1);
	uint64_t pid = (uint64_t)getpid(), shown = own->shown;
	own = &none;
	for (int i = 0; i < (int)LIVE_CLOCKS; i++)
		if (__atomic_load_n(&clocks[i].pid, __ATOMIC_SEQ_CST) == pid)
			own = &clocks[i];
	for (int i = 0; i < (int)LIVE_CLOCKS && own == &none; i++) {
		uint64_t before = __atomic_load_n(&clocks[i].pid, __ATOMIC_SEQ_CST);
		if ((before && !is_gone(before)) ||
		    !__atomic_compare_exchange_n(&clocks[i].pid, &before, pid, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			continue;
		own = &clocks[i];
		own->shown = 0;
	}
	own->shown = shown > own->shown ? shown : own->shown;
}

__attribute__((constructor)) static void begin(void)
{
	const char *told = getenv("NICSCOPE_PACE");
	struct stat found;
	int file = told && strlen(told) < sizeof path ? open(told, O_RDWR | O_CLOEXEC) : -1;
	if (file < 0 || fstat(file, &found))
		return;
	strcpy(path, told);
	inode = found.st_ino;
	size_t size = sizeof *pace + LIVE_CLOCKS * sizeof *own;
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (at == MAP_FAILED)
		return;
	vdso = getauxval(AT_SYSINFO_EHDR);
	pace = at;
	take_clock();
	pthread_atfork(NULL, NULL, take_clock);
	epoch = real_ns(CLOCK_REALTIME) - virtual_ns();
	NEXT(sigaction)(SIGSEGV, NULL, &own_handler);
	install(0);
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
}

/* Another program begins with the counter as it is: its loader reads that before anything can be
 * preloaded, and a thread hands on what it was told of it. */

static void show_counter(int as_it_is)
{
	int wrong = errno;
	if (pace)
		prctl(PR_SET_TSC, as_it_is ? PR_TSC_ENABLE : PR_TSC_SIGSEGV);
	errno = wrong;
}

#define BEGINS(type, name, parameters, ...)                                                            \
	EXPORT type name parameters                                                                    \
	{                                                                                              \
		static __typeof__(name) *next;                                                         \
		if (!next)                                                                             \
			next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);                            \
		show_counter(1);                                                                       \
		type found = next(__VA_ARGS__);                                                        \
		show_counter(0);                                                                       \
		return found;                                                                          \
	}

typedef char *const *words;
typedef const posix_spawn_file_actions_t *actions;
typedef const posix_spawnattr_t *attributes;
BEGINS(int, execve, (const char *path, words given, words settings), path, given, settings)
BEGINS(int, execv, (const char *path, words given), path, given)
BEGINS(int, execvp, (const char *name, words given), name, given)
BEGINS(int, execvpe, (const char *name, words given, words settings), name, given, settings)
BEGINS(int, fexecve, (int file, words given, words settings), file, given, settings)
BEGINS(int, posix_spawn,
       (pid_t *restrict made, const char *restrict path, actions restrict first, attributes restrict how,
	char *const given[restrict], char *const settings[restrict]),
       made, path, first, how, given, settings)
BEGINS(int, posix_spawnp,
       (pid_t *restrict made, const char *restrict name, actions restrict first, attributes restrict how,
	char *const given[restrict], char *const settings[restrict]),
       made, name, first, how, given, settings)
BEGINS(int, system, (const char *command), command)
BEGINS(FILE *, popen, (const char *command, const char *mode), command, mode)

/* The same of a list of words. */
enum { MOST_WORDS = 1024 };
#define LISTED(name, setting, begin)                                                                   \
	EXPORT int name(const char *path, const char *first, ...)                                      \
	{                                                                                              \
		char *given[MOST_WORDS] = {(char *)first};                                             \
		va_list rest;                                                                          \
		va_start(rest, first);                                                                 \
		int many = 0;                                                                          \
		while (given[many] && ++many < MOST_WORDS)                                             \
			given[many] = va_arg(rest, char *);                                            \
		words settings = setting;                                                              \
		va_end(rest);                                                                          \
		errno = E2BIG;                                                                         \
		return many < MOST_WORDS ? begin(path, given, settings) : -1;                          \
	}
LISTED(execl, environ, execve)
LISTED(execlp, environ, execvpe)
LISTED(execle, va_arg(rest, words), execve)
