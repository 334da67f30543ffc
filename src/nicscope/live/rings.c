/* The machine's end of the rings that programs share with it: requests are copied out before they
 * are looked at, completions are put in, and programs that wait for them are woken.  A program can
 * write anything into its segment at any time; nothing here goes by what it says but copies of it.
 * The kernels of message_path.py call what is marked CALLED. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "layout.h"

enum { NODES = LIVE_NODES, RINGS = LIVE_RINGS, AT_ONCE = LIVE_AT_ONCE, SEGMENTS = LIVE_SEGMENTS };
enum { INLINE_FLAG = LIVE_INLINE_BIT, SIGNALED_FLAG = 2, GRH = 40, IPV4 = 20, HOPS = 64, UDP = 17, NEXT_IS_BTH = 0x1B };

struct ring {
	uint8_t *slots; /* NULL: not open */
	uint64_t next; /* the end that is the machine's */
	uint64_t known; /* of requests: the other end, when it was last said that there are new ones */
	uint64_t cookie; /* of a completion queue, as its events name it */
	uint32_t stride, mask, sges, inlined;
	int channel; /* where its events go, or -1 */
};

static struct {
	uint8_t *segment; /* NULL: nobody is attached */
	uint32_t bell; /* as it was seen last */
	uint32_t polls[LIVE_POLLERS]; /* of its threads, when it was last shown anything */
	int64_t used; /* ns of processor time, when it was first asked for since then; or 0 */
	struct ring rings[RINGS];
} clients[NODES];

/* Where requests and completions lie for the kernels: arrays of theirs. */
static struct {
	struct live_taken *taken;
	struct live_gathered *gathered; /* AT_ONCE rows of SEGMENTS */
	uint8_t *inlined; /* AT_ONCE rows of LIVE_INLINE_BYTES */
	struct live_ended *ended;
} staged;

static int sockets; /* of the machine's epoll */
static int64_t unheard; /* events that a program's channel had no room for */

EXPORT int64_t live_unheard(void) { return unheard; }

EXPORT void live_stage(void *taken, void *gathered, void *inlined, void *ended, int64_t poll)
{
	staged.taken = taken;
	staged.gathered = gathered;
	staged.inlined = inlined;
	staged.ended = ended;
	sockets = (int)poll;
}

EXPORT int live_attach(int64_t n, int64_t fd)
{
	void *at = mmap(NULL, LIVE_SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
	if (at == MAP_FAILED)
		return errno;
	memset(&clients[n], 0, sizeof clients[n]);
	clients[n].segment = at;
	return 0;
}

EXPORT void live_detach(int64_t n)
{
	if (clients[n].segment)
		munmap(clients[n].segment, LIVE_SEGMENT_BYTES);
	clients[n].segment = NULL;
}

EXPORT void live_open_ring(int64_t n, int64_t ring, int64_t at, int64_t stride, int64_t slots, int64_t sges, int64_t inlined)
{
	clients[n].rings[ring] = (struct ring){clients[n].segment + at, 0, 0, 0, (uint32_t)stride,
		(uint32_t)slots - 1, (uint32_t)sges, (uint32_t)inlined, -1};
}

static struct live_ring *words_of(int64_t n, int64_t ring)
{
	return (struct live_ring *)(clients[n].segment + LIVE_RINGS_AT) + ring;
}

/* Have a ring of completions be somewhere else, and larger, with all that waits in it. */
EXPORT void live_move_ring(int64_t n, int64_t ring, int64_t at, int64_t slots)
{
	struct ring *r = &clients[n].rings[ring], before = *r;
	uint64_t taken = __atomic_load_n(&words_of(n, ring)->head, __ATOMIC_ACQUIRE);
	r->slots = clients[n].segment + at;
	r->mask = (uint32_t)slots - 1;
	for (uint64_t i = r->next - taken > (uint64_t)before.mask + 1 ? r->next : taken; i != r->next; i++)
		memcpy(r->slots + (i & r->mask) * r->stride, before.slots + (i & before.mask) * r->stride, r->stride);
}

EXPORT void live_close_ring(int64_t n, int64_t ring) { clients[n].rings[ring].slots = NULL; }

EXPORT void live_announce(int64_t n, int64_t ring, int64_t channel, int64_t cookie)
{
	clients[n].rings[ring].channel = (int)channel;
	clients[n].rings[ring].cookie = (uint64_t)cookie;
}

/* Forget what is in a ring of requests: what its owner was reset with. */
EXPORT void live_skip(int64_t n, int64_t ring)
{
	struct ring *r = &clients[n].rings[ring];
	r->known = r->next = __atomic_load_n(&words_of(n, ring)->tail, __ATOMIC_ACQUIRE);
	__atomic_store_n(&words_of(n, ring)->head, r->next, __ATOMIC_RELEASE);
}

/* As compiled code calls: result, exception, state, numbers; the status.  That there is no exception
 * has to be said: a call that says nothing is one that was lost. */
#define CALLED(name, ...)                                                                              \
	EXPORT int32_t live_##name(int64_t *result, void **error, void *state, ##__VA_ARGS__)
#define ANSWER(value)                                                                                  \
	do {                                                                                           \
		(void)state;                                                                           \
		*result = (int64_t)(value);                                                            \
		if (error)                                                                             \
			*error = NULL;                                                                 \
		return 0;                                                                              \
	} while (0)

CALLED(has_rung, int64_t n)
{
	struct live_header *header = (struct live_header *)clients[n].segment;
	if (!header)
		ANSWER(0);
	uint32_t bell = __atomic_load_n(&header->bell, __ATOMIC_SEQ_CST), before = clients[n].bell;
	clients[n].bell = bell;
	ANSWER(bell != before);
}

EXPORT int live_is_rung(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* after a program was told that the machine sleeps */
	for (int n = 0; n < NODES; n++) {
		struct live_header *header = (struct live_header *)clients[n].segment;
		if (header && __atomic_load_n(&header->bell, __ATOMIC_SEQ_CST) != clients[n].bell)
			return 1;
	}
	return 0;
}

CALLED(has_any_rung)
{
	ANSWER(live_is_rung());
}

/* How many requests a ring holds; none if it claims to hold more than it has places for. */
CALLED(waiting, int64_t n, int64_t ring)
{
	const struct ring *r = &clients[n].rings[ring];
	if (!clients[n].segment || !r->slots)
		ANSWER(0);
	uint64_t many = __atomic_load_n(&words_of(n, ring)->tail, __ATOMIC_ACQUIRE) - r->next;
	ANSWER(many <= (uint64_t)r->mask + 1 ? many : 0);
}

static void take_pieces(struct live_gathered *to, const uint8_t *from, uint32_t count)
{
	struct live_piece piece;
	for (uint32_t i = 0; i < count; i++) {
		memcpy(&piece, from + i * sizeof piece, sizeof piece);
		to[i] = (struct live_gathered){(int64_t)piece.address, piece.length, piece.lkey};
	}
}

static const uint8_t v4_prefix[12] = {[10] = 0xFF, [11] = 0xFF};

static void gid_of(uint8_t *gid, int64_t n, int is_v4)
{
	static const uint8_t local[16] = {0xFE, 0x80, [8] = 0, 0, 0, 0xFF, 0xFE, 0, 0, 0};
	if (is_v4) {
		memcpy(gid, v4_prefix, sizeof v4_prefix);
		memcpy(gid + 12, (uint8_t[]){10, 0, 0, (uint8_t)(n + 1)}, 4);
		return;
	}
	memcpy(gid, local, 16);
	gid[15] = (uint8_t)(n + 1);
}

static int64_t node_of(const uint8_t *gid, int *is_v4)
{
	uint8_t its[16];
	int64_t n = gid[15] - 1;
	*is_v4 = gid[0] == 0;
	gid_of(its, n, *is_v4);
	if (n >= 0 && n < NODES && !memcmp(its, gid, sizeof its))
		return n;
	*is_v4 = 0;
	return -1;
}

/* Multicast groups, by address; queue pairs that are in them. */
enum { GROUPS = 64, MEMBERS = LIVE_MEMBERS };
static struct group { uint8_t gid[16]; int count; struct { int64_t node, number; } members[MEMBERS]; } groups[GROUPS];

static int is_group(const uint8_t *gid)
{
	return gid[0] == 0xFF || (!memcmp(gid, v4_prefix, sizeof v4_prefix) && gid[12] >> 4 == 0xE);
}

static struct group *group_of(const uint8_t *gid)
{
	for (int i = 0; i < GROUPS; i++)
		if (groups[i].count && !memcmp(groups[i].gid, gid, 16))
			return &groups[i];
	return NULL;
}

static struct group *new_group(const uint8_t *gid)
{
	for (int i = 0; i < GROUPS; i++)
		if (!groups[i].count) {
			memcpy(groups[i].gid, gid, 16);
			return &groups[i];
		}
	return NULL;
}

EXPORT int64_t live_join(int64_t n, int64_t number, int64_t high, int64_t low, int64_t joins)
{
	uint8_t gid[16];
	memcpy(gid, &high, 8);
	memcpy(gid + 8, &low, 8);
	struct group *group = is_group(gid) ? group_of(gid) : NULL;
	int at = 0;
	while (group && at < group->count && (group->members[at].node != n || group->members[at].number != number))
		at++;
	int is_in = group && at < group->count;
	if (!is_group(gid) || (!joins && !is_in))
		return EINVAL;
	if (!joins) {
		group->members[at] = group->members[--group->count];
		return 0;
	}
	if (is_in)
		return 0;
	group = group ? group : new_group(gid);
	if (!group || group->count == MEMBERS)
		return ENOMEM;
	group->members[group->count].node = n;
	group->members[group->count++].number = number;
	return 0;
}

/* A datagram to a group, of which the first copy is at row ``i``: one for each member, of which the
 * last has the completion.  How many there are. */
static int64_t copy_to_members(int64_t i, const struct group *group)
{
	for (int k = 0; k < group->count; k++) {
		struct live_taken *to = &staged.taken[i + k];
		if (k) {
			*to = staged.taken[i];
			memcpy(staged.gathered + (i + k) * SEGMENTS, staged.gathered + i * SEGMENTS,
			       SEGMENTS * sizeof *staged.gathered);
			memcpy(staged.inlined + (i + k) * LIVE_INLINE_BYTES, staged.inlined + i * LIVE_INLINE_BYTES,
			       LIVE_INLINE_BYTES);
		}
		to->node = group->members[k].node;
		to->qpn = group->members[k].number;
		to->is_v4 = group->gid[0] != 0xFF;
	}
	for (int k = 0; k + 1 < group->count; k++)
		staged.taken[i + k].flags &= ~(int64_t)SIGNALED_FLAG;
	return group->count;
}

static void take_send(const struct ring *r, int64_t i, const uint8_t *slot)
{
	struct live_send s;
	memcpy(&s, slot, sizeof s);
	int is_inline = s.send_flags & INLINE_FLAG, is_v4;
	uint32_t most = r->inlined > 8 ? r->inlined : 8;
	uint32_t bytes = s.inlined < most ? s.inlined : most;
	uint32_t pieces = is_inline ? 0 : s.pieces < r->sges ? s.pieces : r->sges;
	uint8_t gid[16];
	memcpy(gid, &s.dgid_high, 16);
	int64_t node = node_of(gid, &is_v4);
	staged.taken[i] = (struct live_taken){
		.wr_id = (int64_t)s.wr_id, .opcode = s.opcode, .flags = s.send_flags, .word = s.imm,
		.pieces = pieces, .remote = (int64_t)s.remote, .rkey = s.rkey,
		.inlined = is_inline ? (int64_t)bytes : -1, .compare = (int64_t)s.compare,
		.swap = (int64_t)s.swap, .qpn = s.qpn, .qkey = s.qkey, .srqn = s.srqn,
		.position = (int64_t)r->next + 1, .node = node, .is_v4 = is_v4};
	take_pieces(staged.gathered + i * SEGMENTS, slot + sizeof s, pieces);
	if (is_inline)
		memcpy(staged.inlined + i * LIVE_INLINE_BYTES, slot + sizeof s, bytes);
}

static void take_receive(const struct ring *r, int64_t i, const uint8_t *slot)
{
	struct live_receive s;
	memcpy(&s, slot, sizeof s);
	uint32_t pieces = s.pieces < r->sges ? s.pieces : r->sges;
	staged.taken[i] = (struct live_taken){.wr_id = (int64_t)s.wr_id, .pieces = pieces, .inlined = -1,
		.position = (int64_t)r->next + 1};
	take_pieces(staged.gathered + i * SEGMENTS, slot + sizeof s, pieces);
}

static const struct group *group_at(const uint8_t *slot)
{
	uint8_t gid[16];
	memcpy(gid, slot + offsetof(struct live_send, dgid_high), sizeof gid);
	return is_group(gid) ? group_of(gid) : NULL;
}

/* Copy the next ``count`` requests of a ring out of it, as ``most`` at the most; return as how many. */
CALLED(take, int64_t n, int64_t ring, int64_t count, int64_t are_sends, int64_t most)
{
	struct ring *r = &clients[n].rings[ring];
	int64_t taken = 0;
	if (are_sends && r->known - r->next < (uint64_t)count) { /* a receive has nothing be read */
		r->known = __atomic_load_n(&words_of(n, ring)->tail, __ATOMIC_ACQUIRE);
		forget_what_was_read();
	}
	for (int64_t i = 0; i < count && taken < most; i++, r->next++) {
		const uint8_t *slot = r->slots + (r->next & r->mask) * r->stride;
		const struct group *group = are_sends ? group_at(slot) : NULL;
		if (group && group->count > most - taken)
			break;
		if (!are_sends)
			take_receive(r, taken, slot);
		else
			take_send(r, taken, slot);
		taken += group ? copy_to_members(taken, group) : 1;
	}
	__atomic_store_n(&words_of(n, ring)->head, r->next, __ATOMIC_RELEASE);
	ANSWER(taken);
}

static uint64_t room_of(const struct ring *r, struct live_ring *words)
{
	uint64_t held = r->next - __atomic_load_n(&words->head, __ATOMIC_SEQ_CST);
	return held <= r->mask ? (uint64_t)r->mask + 1 - held : 0;
}

/* How many completions a ring has room for; if none, its program is to say when it has. */
CALLED(room, int64_t n, int64_t ring)
{
	const struct ring *r = &clients[n].rings[ring];
	struct live_ring *words = words_of(n, ring);
	uint64_t room = room_of(r, words);
	if (!room) {
		__atomic_store_n(&words->full, 1, __ATOMIC_SEQ_CST);
		room = room_of(r, words);
	}
	ANSWER(room);
}

/* A receive of a shared queue ends, and nobody is told: its place is free again. */
CALLED(give_up, int64_t n, int64_t ring)
{
	if (clients[n].segment)
		__atomic_fetch_add(&words_of(n, ring)->given_up, 1, __ATOMIC_SEQ_CST);
	ANSWER(0);
}

static void wake(int64_t n, int64_t ring, int is_urgent)
{
	struct live_ring *words = words_of(n, ring);
	struct ring *r = &clients[n].rings[ring];
	uint32_t armed = __atomic_load_n(&words->armed, __ATOMIC_SEQ_CST);
	if (!armed || r->channel < 0 || (armed != 1 && !is_urgent))
		return;
	__atomic_store_n(&words->armed, 0, __ATOMIC_SEQ_CST);
	uint64_t event[2] = {r->cookie, (uint64_t)ring};
	if (write(r->channel, event, sizeof event) != sizeof event)
		unheard++;
}

/* Put the first ``count`` of what has ended into a ring. */
CALLED(put, int64_t n, int64_t ring, int64_t count)
{
	struct ring *r = &clients[n].rings[ring];
	int is_urgent = 0;
	if (!clients[n].segment || !r->slots)
		ANSWER(0);
	for (int64_t i = 0; i < count; i++, r->next++) {
		const struct live_ended *e = &staged.ended[i];
		struct live_completion c = {
			.wr_id = (uint64_t)e->wr_id, .position = (uint64_t)e->position,
			.time = (uint64_t)e->time, .status = (uint32_t)e->status,
			.opcode = (uint32_t)e->opcode, .byte_len = (uint32_t)e->length,
			.imm = (uint32_t)e->word, .qp_num = (uint32_t)e->qp_num,
			.src_qp = (uint32_t)e->source, .wc_flags = (uint32_t)e->flags,
			.ring = (uint32_t)e->ring};
		memcpy(r->slots + (r->next & r->mask) * r->stride, &c, sizeof c);
		is_urgent |= e->urgent != 0;
	}
	__atomic_store_n(&words_of(n, ring)->tail, r->next, __ATOMIC_SEQ_CST);
	if (count)
		wake(n, ring, is_urgent);
	ANSWER(count);
}

static void put_half(uint8_t *to, unsigned value)
{
	to[0] = (uint8_t)(value >> 8);
	to[1] = (uint8_t)value;
}

/* The 40 bytes before a datagram of ``length`` bytes, as fabric.header() has them. */
static void global_header(uint8_t *to, int64_t from, int64_t n, int is_v4, int64_t length)
{
	uint8_t source[16], target[16];
	gid_of(source, from, is_v4);
	gid_of(target, n, is_v4);
	memset(to, 0, GRH);
	if (!is_v4) {
		to[0] = 0x60;
		put_half(to + 4, (unsigned)length);
		to[6] = NEXT_IS_BTH;
		to[7] = HOPS;
		memcpy(to + 8, source, 16);
		memcpy(to + 24, target, 16);
		return;
	}
	uint8_t *head = to + GRH - IPV4;
	unsigned sum = 0;
	head[0] = 0x45;
	put_half(head + 2, (unsigned)(IPV4 + length));
	head[8] = HOPS;
	head[9] = UDP;
	memcpy(head + 12, source + 12, 4);
	memcpy(head + 16, target + 12, 4);
	for (int i = 0; i < IPV4; i += 2)
		sum += (unsigned)head[i] << 8 | head[i + 1];
	while (sum >> 16)
		sum = (sum & 0xFFFF) + (sum >> 16);
	put_half(head + 10, ~sum & 0xFFFF);
}

/* Write bytes ``begin`` to ``end`` of that header to a process's memory. */
CALLED(put_header, int64_t n, int64_t address, int64_t begin, int64_t end, int64_t from, int64_t is_v4, int64_t length)
{
	uint8_t header[GRH];
	global_header(header, from, n, (int)is_v4, length);
	if (0 <= begin && begin < end && end <= GRH)
		live_write(owner_of(n), address, header + begin, end - begin);
	ANSWER(0);
}

/* Have all that has arrived be in the memory of its process. */
CALLED(settle)
{
	ANSWER(write_all_behind());
}

CALLED(clock)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	ANSWER(now.tv_sec * 1000000000LL + now.tv_nsec);
}

/* Where programs' clocks look, or NULL: they show real time. */
static struct live_pace *pace;

EXPORT void live_set_pace(void *at) { pace = at; }

CALLED(show_time, int64_t now, int64_t idle_since)
{
	if (pace) {
		__atomic_fetch_add(&pace->turn, 1, __ATOMIC_SEQ_CST);
		__atomic_store_n(&pace->now, (uint64_t)now, __ATOMIC_SEQ_CST);
		__atomic_store_n(&pace->idle_since, (uint64_t)idle_since, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&pace->turn, 1, __ATOMIC_SEQ_CST);
	}
	ANSWER(0);
}

static struct live_poller *pollers_of(int64_t n)
{
	return (struct live_poller *)(clients[n].segment + LIVE_POLLERS_AT);
}

/* Programs have just been shown something, which they may act on. */
CALLED(note_shown)
{
	for (int64_t n = 0; n < NODES; n++)
		for (int i = clients[n].used = 0; clients[n].segment && i < (int)LIVE_POLLERS; i++)
			clients[n].polls[i] = __atomic_load_n(&pollers_of(n)[i].polls, __ATOMIC_RELAXED);
	ANSWER(0);
}

/* Whether a thread (0: any) has looked since then, found no more, and so waits: its second empty poll
 * began after it was shown what there was. */
static int has_looked(int64_t n, uint32_t thread)
{
	for (int i = 0; i < (int)LIVE_POLLERS; i++) {
		uint32_t tid = __atomic_load_n(&pollers_of(n)[i].tid, __ATOMIC_RELAXED);
		uint32_t polls = __atomic_load_n(&pollers_of(n)[i].polls, __ATOMIC_RELAXED);
		if (tid && (!thread || tid == thread) && polls - clients[n].polls[i] >= 2)
			return 1;
	}
	return 0;
}

/* Whether a thread is asleep, in some call to the kernel, or has gone. */
static int is_asleep(int folder, const char *thread)
{
	char path[64], text[512];
	snprintf(path, sizeof path, "%.20s/stat", thread);
	int file = openat(folder, path, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
	if (file >= 0)
		close(file);
	text[length < 0 ? 0 : length] = 0;
	const char *name_end = strrchr(text, ')');
	return !name_end || name_end[2] != 'R';
}

/* Whether each thread of a program waits: it looks in vain, or is asleep. */
CALLED(sleeps, int64_t n)
{
	char path[64];
	int all = 1;
	snprintf(path, sizeof path, "/proc/%lld/task", (long long)owner_of(n));
	DIR *threads = opendir(path);
	for (struct dirent *each; threads && all && (each = readdir(threads));)
		if (each->d_name[0] != '.')
			all = (clients[n].segment && has_looked(n, (uint32_t)atoi(each->d_name))) ||
			      is_asleep(dirfd(threads), each->d_name);
	if (threads)
		closedir(threads);
	ANSWER(all);
}

/* Whether a program has looked in vain with the only thread that it has. */
CALLED(waits, int64_t n)
{
	enum { BESIDE = 2 }; /* links of a folder that has no folders */
	char path[64];
	struct stat threads;
	if (!clients[n].segment)
		ANSWER(1);
	if (!has_looked(n, 0))
		ANSWER(0);
	snprintf(path, sizeof path, "/proc/%lld/task", (long long)owner_of(n));
	if (stat(path, &threads) || threads.st_nlink <= BESIDE + 1)
		ANSWER(1);
	return live_sleeps(result, error, state, n);
}

/* Processor time of a program, since this was first asked after it was shown something: a processor
 * that others keep busy lets it react late. */
CALLED(ran, int64_t n)
{
	clockid_t own;
	struct timespec used;
	if (clock_getcpuclockid((pid_t)owner_of(n), &own) || clock_gettime(own, &used))
		ANSWER(INT64_MAX); /* it has gone */
	int64_t now = used.tv_sec * 1000000000LL + used.tv_nsec;
	if (!clients[n].used)
		clients[n].used = now;
	ANSWER(now - clients[n].used);
}

/* Whether a program asks for something by its socket. */
CALLED(is_asked)
{
	struct epoll_event one;
	ANSWER(epoll_wait(sockets, &one, 1, 0) > 0);
}

CALLED(yield_processor)
{
	sched_yield();
	ANSWER(0);
}

/* The event loop, which is compiled by itself. */
static int32_t (*advance)(int64_t *, void **, void *, int64_t, int64_t);
static void *machine;

EXPORT void live_link_advance(void *function, void *table)
{
	advance = (int32_t (*)(int64_t *, void **, void *, int64_t, int64_t))function;
	machine = table;
}

CALLED(fire, int64_t begun, int64_t most)
{
	(void)state;
	return advance(result, error, machine, begun, most);
}
