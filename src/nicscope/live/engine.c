/* The machine's side of programs' memory: bytes move between its frames and the processes that the
 * frames stand for.  The firmware calls load and store; see nic/ports/program_memory.py. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine.h"

enum { PAGE_SHIFT = 12, PAGE = 1 << PAGE_SHIFT, MAX_NODES = 64 };

/* By node: whose memory it is, the frames' bytes, and by frame the address of its page (0: none). */
static struct { pid_t pid; uint8_t *bytes; int64_t *pages; int64_t frames; } nodes[MAX_NODES];
static int64_t failures; /* pages that were not there, or not to be written */

EXPORT int64_t live_failures(void) { return failures; }

EXPORT int live_place(int64_t n, uint8_t *bytes, int64_t *pages, int64_t frames)
{
	if (n < 0 || n >= MAX_NODES)
		return 1;
	nodes[n].bytes = bytes;
	nodes[n].pages = pages;
	nodes[n].frames = frames;
	return 0;
}

EXPORT void live_own(int64_t n, int64_t pid) { nodes[n].pid = (pid_t)pid; }

int64_t owner_of(int64_t n) { return nodes[n].pid; }

typedef ssize_t (*mover)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long);

static void move(mover moves, int64_t n, int64_t address, int64_t count)
{
	while (count > 0) {
		int64_t frame = address >> PAGE_SHIFT, within = address & (PAGE - 1);
		int64_t size = count < PAGE - within ? count : PAGE - within;
		if (frame < nodes[n].frames && nodes[n].pages[frame] && nodes[n].pid) {
			struct iovec here = {nodes[n].bytes + address, (size_t)size};
			struct iovec there = {(void *)(nodes[n].pages[frame] + within), (size_t)size};
			if (moves(nodes[n].pid, &here, 1, &there, 1, 0) != size)
				failures++;
		}
		address += size;
		count -= size;
	}
}

/* As compiled code calls: result, exception, state, numbers; the status.  That there is no exception
 * has to be said: a call that says nothing is one that was lost. */
EXPORT int32_t live_load(int64_t *result, void **error, void *state, int64_t n, int64_t address, int64_t count)
{
	(void)state;
	*result = 0;
	if (error)
		*error = NULL;
	move(process_vm_readv, n, address, count);
	return 0;
}

EXPORT int32_t live_store(int64_t *result, void **error, void *state, int64_t n, int64_t address, int64_t count)
{
	(void)state;
	*result = 0;
	if (error)
		*error = NULL;
	move((mover)process_vm_writev, n, address, count);
	return 0;
}

/* Read one byte of each page from first on, as pinning would; how many are there. */
EXPORT int64_t live_touch(int64_t pid, int64_t first, int64_t pages)
{
	for (int64_t i = 0; i < pages; i++) {
		uint8_t byte;
		struct iovec here = {&byte, 1}, there = {(void *)(first + (i << PAGE_SHIFT)), 1};
		if (process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0) != 1)
			return i;
	}
	return pages;
}

/* Bytes of a process that no frame stands for; how many were moved. */
EXPORT int64_t live_write(int64_t pid, int64_t address, const void *bytes, int64_t count)
{
	struct iovec here = {(void *)(uintptr_t)bytes, (size_t)count}, there = {(void *)address, (size_t)count};
	return process_vm_writev((pid_t)pid, &here, 1, &there, 1, 0);
}
