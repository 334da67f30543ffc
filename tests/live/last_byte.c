/* A child's memory, written as the machine does: what arrives is BEGIN and END of each piece, in order.
 *
 * last_byte order PIECES: prints how the bytes are copied, a copy a line: begin and end.
 * last_byte spin TURNS PIECES: the child spins on the last byte, and looks at all bytes at once; prints
 * in how many turns any of them came later. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>

static ssize_t noted(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long);
#define process_vm_writev noted
#include "engine.c"
#undef process_vm_writev

enum { LONGEST = 1 << 17, FRAMES = LONGEST / PAGE };
static uint8_t frames[LONGEST] __attribute__((aligned(4096)));
static uint8_t buffer[LONGEST] __attribute__((aligned(4096)));
static int64_t pages[FRAMES];
static int tells;
struct shared { int64_t seen, late; };

static ssize_t noted(pid_t pid, const struct iovec *from, unsigned long count, const struct iovec *to,
		     unsigned long pieces, unsigned long flags)
{
	for (unsigned long i = 0; tells && i < count; i++) {
		long begin = (long)((uint8_t *)from[i].iov_base - frames);
		printf("%ld %ld\n", begin, begin + (long)from[i].iov_len);
	}
	return process_vm_writev(pid, from, count, to, pieces, flags);
}

static void run_on(size_t processor)
{
	cpu_set_t only;
	CPU_ZERO(&only);
	CPU_SET(processor, &only);
	sched_setaffinity(0, sizeof only, &only); /* where there are two, they run at once */
}

static void spin(struct shared *with, int64_t begin, int64_t end, int64_t turns)
{
	run_on(1);
	for (int64_t turn = 1; turn <= turns; turn++) {
		volatile uint8_t *at = buffer;
		int is_late = 0;
		while (__atomic_load_n(buffer + end - 1, __ATOMIC_ACQUIRE) != (uint8_t)turn)
			;
		for (int64_t i = end - 1; i >= begin; i--)
			is_late |= at[i] != (uint8_t)turn;
		with->late += is_late;
		__atomic_store_n(&with->seen, turn, __ATOMIC_RELEASE);
	}
	_exit(0);
}

int main(int count, char **words)
{
	tells = count > 1 && !strcmp(words[1], "order");
	int first = tells ? 2 : 3;
	int64_t turns = tells ? 1 : atoll(words[2]);
	int64_t begin = atoll(words[first]), end = atoll(words[count - 1]);
	struct shared *with = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child = fork();
	if (child == 0)
		spin(with, begin, end, turns);
	run_on(0);
	for (int i = 0; i < FRAMES; i++)
		pages[i] = (int64_t)(uintptr_t)buffer + (int64_t)i * PAGE;
	live_place(0, frames, pages, FRAMES);
	live_own(0, child);
	for (int64_t turn = 1; turn <= turns; turn++) {
		memset(frames, (int)(uint8_t)turn, sizeof frames);
		for (int i = first; i < count; i += 2)
			store(0, atoll(words[i]), atoll(words[i + 1]) - atoll(words[i]));
		write_all_behind();
		while (__atomic_load_n(&with->seen, __ATOMIC_ACQUIRE) != turn)
			sched_yield();
	}
	waitpid(child, NULL, 0);
	if (!tells)
		printf("%lld\n", (long long)with->late);
	return failures != 0;
}
