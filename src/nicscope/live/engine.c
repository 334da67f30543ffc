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

/* Bytes that arrive may be written to their process later, if it is before the process is told of
 * anything, and before anything else is read from it.  Programs rely on the last bytes of a message
 * to be there after all others, and one copy may store its bytes in any order: each message's last
 * word, where it may end, has a copy of its own, begun at the cuts. */
enum { WORD = 8, CUTS = 64 };
static struct { int64_t begin, end, cuts[CUTS]; int count; } behind[MAX_NODES];
static int has_behind; /* of any node */

/* How many copies one call makes in their order.  x86 keeps the stores of different string operations
 * in order; elsewhere the locks of the next call do. */
#ifdef __x86_64__
enum { AT_ONCE = CUTS + 1 };
#else
enum { AT_ONCE = 1 };
#endif

/* Write bytes of frames to the process as they lie there; whether it went. */
static int write_in_order(int64_t n, int64_t address, uint8_t *there, int64_t size)
{
	struct iovec parts[AT_ONCE];
	int64_t begin = address, done = address, end = address + size;
	int used = 0, is_written = 1;
	for (int i = 0; i <= behind[n].count; i++) {
		int64_t cut = i < behind[n].count && behind[n].cuts[i] < end ? behind[n].cuts[i] : end;
		if (cut > begin) {
			parts[used++] = (struct iovec){nodes[n].bytes + begin, (size_t)(cut - begin)};
			begin = cut;
		}
		if (used == AT_ONCE || (used && i == behind[n].count)) {
			struct iovec to = {there + (done - address), (size_t)(begin - done)};
			is_written &= process_vm_writev(nodes[n].pid, parts, (unsigned long)used, &to, 1, 0) == begin - done;
			done = begin;
			used = 0;
		}
	}
	return is_written;
}

static int read_whole(int64_t n, int64_t address, uint8_t *there, int64_t size)
{
	struct iovec here = {nodes[n].bytes + address, (size_t)size}, from = {there, (size_t)size};
	return process_vm_readv(nodes[n].pid, &here, 1, &from, 1, 0) == size;
}

typedef int (*mover)(int64_t n, int64_t address, uint8_t *there, int64_t size);

/* How many of ``count`` bytes from a frame's address on lie in the process as they lie in frames. */
static int64_t stretch(int64_t n, int64_t address, int64_t count)
{
	int64_t frame = address >> PAGE_SHIFT, end = (frame + 1) << PAGE_SHIFT;
	if (frame >= nodes[n].frames || !nodes[n].pages[frame])
		return 0;
	while (end < address + count && ++frame < nodes[n].frames &&
	       nodes[n].pages[frame] == nodes[n].pages[frame - 1] + PAGE)
		end += PAGE;
	return end < address + count ? end - address : count;
}

static int64_t move_stretch(mover moves, int64_t n, int64_t address, int64_t count)
{
	int64_t frame = address >> PAGE_SHIFT, within = address & (PAGE - 1);
	int64_t size = nodes[n].pid ? stretch(n, address, count) : 0;
	if (size && !moves(n, address, (uint8_t *)(nodes[n].pages[frame] + within), size))
		failures++;
	return size ? size : count < PAGE - within ? count : PAGE - within;
}

static void move(mover moves, int64_t n, int64_t address, int64_t count)
{
	while (count > 0) {
		int64_t size = move_stretch(moves, n, address, count);
		address += size;
		count -= size;
	}
}

/* Each packet would be a system call.  A program may not change what it sends until that has ended, so
 * bytes behind a packet's may be read ahead, as files are, and read once for several requests: for as
 * long as no program has posted anything new.  What answers a peer's request may change at any time,
 * and a peer's requests see its changes in their order, so that is read as it is then.
 * Assumed: extents of up to 2 MiB in all for each program, some messages of a MiB. */
enum { AHEADS = 32, LEAST_AHEAD = PAGE, MOST_AHEAD = 1 << 16, MOST_BEHIND = 1 << 16 };
struct extent { int64_t begin, end, there, window; uint64_t generation, used; }; /* there: in the process; 0: not as in frames */
static struct extent ahead[MAX_NODES][AHEADS];
static uint64_t generation = 1, uses;

void forget_what_was_read(void) { generation++; }

/* What was read of pages that are written as other frames', of a region that overlaps, is old now. */
static void forget_doubles(int64_t n, int64_t begin, int64_t end)
{
	while (begin < end) {
		int64_t within = begin & (PAGE - 1), size = stretch(n, begin, end - begin);
		int64_t there = size ? nodes[n].pages[begin >> PAGE_SHIFT] + within : 0;
		for (struct extent *e = ahead[n]; size && e < ahead[n] + AHEADS; e++) {
			int is_apart = e->there >= there + size || there >= e->there + (e->end - e->begin);
			if (!e->there || (!is_apart && e->there - e->begin != there - begin))
				e->generation = 0;
		}
		begin += size ? size : PAGE - within;
	}
}

static void write_behind(int64_t n)
{
	int64_t begin = behind[n].begin, end = behind[n].end;
	behind[n].begin = behind[n].end = 0;
	if (begin < end) {
		move(write_in_order, n, begin, end - begin);
		forget_doubles(n, begin, end);
	}
	behind[n].count = 0;
}

int64_t write_all_behind(void)
{
	int64_t writes = 0;
	if (!has_behind)
		return 0;
	has_behind = 0;
	for (int64_t n = 0; n < MAX_NODES; n++)
		if (behind[n].end) {
			write_behind(n);
			writes++;
		}
	return writes;
}

static void load(int64_t n, int64_t address, int64_t count, int is_answer)
{
	struct extent *chosen = &ahead[n][0];
	write_behind(n);
	if (is_answer) {
		move(read_whole, n, address, count);
		return;
	}
	int64_t window = 0;
	for (struct extent *e = ahead[n]; e < ahead[n] + AHEADS; e++) {
		if (e->generation == generation && e->begin <= address && address + count <= e->end) {
			e->used = ++uses;
			return;
		}
		if (e->end == address && e->generation) { /* what begins where another ended goes on, as it seems */
			int64_t next = e->window ? 2 * e->window : LEAST_AHEAD;
			window = next > window ? next : window;
		}
		if (e->used < chosen->used)
			chosen = e;
	}
	window = window < MOST_AHEAD ? window : MOST_AHEAD;
	int64_t whole = stretch(n, address, count > window ? count : window);
	int64_t there = whole < count ? 0 : nodes[n].pages[address >> PAGE_SHIFT] + (address & (PAGE - 1));
	whole = whole < count ? count : whole;
	move(read_whole, n, address, whole);
	*chosen = (struct extent){address, address + whole, there, window, generation, ++uses};
}

static void store(int64_t n, int64_t address, int64_t count)
{
	int64_t end = address + count, last = (end - 1) / WORD * WORD;
	int is_next = behind[n].end == address && address - behind[n].begin < MOST_BEHIND && behind[n].count <= CUTS - 2;
	if (behind[n].begin == address && behind[n].end == end)
		return; /* bytes of the frame that were not written yet, and are overwritten */
	if (!is_next) {
		write_behind(n);
		behind[n].begin = address;
	}
	behind[n].cuts[behind[n].count++] = address;
	if (last > address)
		behind[n].cuts[behind[n].count++] = last;
	behind[n].end = end;
	has_behind = 1;
}

/* As compiled code calls: result, exception, state, numbers; the status.  That there is no exception
 * has to be said: a call that says nothing is one that was lost. */
EXPORT int32_t live_load(int64_t *result, void **error, void *state, int64_t n, int64_t address, int64_t count,
			 int64_t is_answer)
{
	(void)state;
	*result = 0;
	if (error)
		*error = NULL;
	if (count > 0)
		load(n, address, count, is_answer != 0);
	return 0;
}

EXPORT int32_t live_store(int64_t *result, void **error, void *state, int64_t n, int64_t address, int64_t count)
{
	(void)state;
	*result = 0;
	if (error)
		*error = NULL;
	if (count > 0)
		store(n, address, count);
	return 0;
}

/* Read one byte of each page from first on, as pinning would; how many are there. */
EXPORT int64_t live_touch(int64_t pid, int64_t first, int64_t pages)
{
	forget_what_was_read();
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
