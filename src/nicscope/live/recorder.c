/* Preloaded in front of whatever libibverbs a program binds: writes down what it registers, posts
 * and polls.  Posting and polling are inline through function pointers of the opened device, of
 * extended queue pairs and of extended completion queues, so these are replaced and the originals
 * kept.  Every thread writes entries into mapped files of its own, which outlive the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "abi.h"
#include "entries.h"

#define EXPORT __attribute__((visibility("default")))
enum { STAGE_BYTES = ENTRIES_STAGED * sizeof(struct entry), BUCKETS = 1 << 14, MOST_GIDS = 16 };
enum { WC_WITH_BYTE_LEN = 1, WC_WITH_QP_NUM = 4, QPT_UD = 4, SEND_INLINE = 8 };
enum { MASK_AV = 1 << 7, MASK_DEST_QPN = 1 << 20, CHANGE_ACCESS = 4, MOST_PIECES = 255 };
enum { WR_RDMA_WRITE, WR_RDMA_WRITE_IMM, WR_SEND, WR_SEND_IMM, WR_RDMA_READ, WR_CMP_SWP, WR_FETCH_ADD,
       WR_SEND_INV = 9, WR_TSO = 10 };
enum { BUILT_AT_ONCE = 32 };

/* ---- Where entries go ---- */

static const char *folder; /* NULL: nothing is recorded */
static pid_t *own_process; /* in a page that a forked child finds wiped: 0 there */
static unsigned files_made;
static pthread_key_t at_end_of_thread;
static __thread struct { struct entry *at, *end, *file; pid_t process; int inside; uint8_t lap; char path[512]; } mine
	__attribute__((tls_model("initial-exec")));

static uint64_t monotonic_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#elif defined(__aarch64__)
	uint64_t now;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
	return now;
#else
	return monotonic_ns();
#endif
}

/* What both clocks show now, for whoever reads the files. */
EXPORT void nicscope_recorder_clocks(uint64_t shown[2])
{
	shown[0] = ticks();
	shown[1] = monotonic_ns();
}

static void drop_file(void *unused)
{
	(void)unused;
	if (mine.file)
		munmap(mine.file, STAGE_BYTES);
	mine.file = mine.at = mine.end = NULL;
}

/* The beginning of the thread's file, mapped: entries are put there, time and again over the same
 * pages, which costs less than to map new ones. */
static int begin_file(void)
{
	drop_file(NULL);
	pid_t thread = (pid_t)syscall(SYS_gettid);
	unsigned number = __atomic_fetch_add(&files_made, 1, __ATOMIC_RELAXED);
	struct entry *made = MAP_FAILED;
	int file = -1;
	if (snprintf(mine.path, sizeof mine.path, "%s/%d.%d.%u", folder, *own_process, thread, number) <
	    (int)sizeof mine.path)
		file = open(mine.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	/* Without its blocks, a full disk would be a fatal signal later. */
	if (file >= 0 && !posix_fallocate(file, 0, STAGE_BYTES))
		made = mmap(NULL, STAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
	if (file >= 0)
		close(file);
	if (made == MAP_FAILED)
		return 0;
	pthread_setspecific(at_end_of_thread, made);
	mine.file = made;
	mine.process = *own_process;
	mine.end = made + ENTRIES_STAGED;
	mine.lap = 0;
	*made = (struct entry){.ticks = ticks(), .address = monotonic_ns(), .number = (uint32_t)thread,
		.lkey = (uint32_t)*own_process, .bits = ENTRY_FORMAT, .kind = ENTRY_FILE};
	return 1;
}

/* What has been put there goes behind it; the header says so afterwards, for a process that is killed
 * in between.  The file is opened by its name, since programs close descriptors that they do not know. */
static int append_stage(void)
{
	int file = open(mine.path, O_WRONLY | O_APPEND | O_CLOEXEC);
	ssize_t bytes = STAGE_BYTES - sizeof(struct entry), moved = -1;
	if (file < 0)
		return 0;
	moved = write(file, mine.file + 1, (size_t)bytes);
	if (moved != bytes && moved > 0 && ftruncate(file, (off_t)(STAGE_BYTES + mine.file->length * sizeof(struct entry))))
		moved = -1;
	close(file);
	if (moved != bytes)
		return 0;
	__atomic_store_n(&mine.file->length, mine.file->length + ENTRIES_STAGED - 1, __ATOMIC_RELEASE);
	mine.lap++;
	return 1;
}

/* Room for an entry where there was none, or NULL: nothing is recorded any more. */
static struct entry *make_room(void)
{
	int before = errno, has;
	if (!folder || !own_process)
		return NULL;
	if (!*own_process)
		*own_process = getpid(); /* a forked child: its parent's file stays its parent's */
	has = mine.file && mine.process == *own_process ? append_stage() : begin_file();
	errno = before;
	if (!has) {
		folder = NULL;
		mine.at = mine.end;
		return NULL;
	}
	mine.at = mine.file + 1;
	return mine.at++;
}

static inline void put(int kind, struct entry told)
{
	struct entry *to = mine.at;
	if (__builtin_expect(to != mine.end && own_process && mine.process == *own_process, 1))
		mine.at++;
	else if (!(to = make_room()))
		return;
	told.kind = (uint8_t)kind;
	told.lap = mine.lap;
	/* Its last word says that it is there: a process may be killed before. */
	memcpy(to, &told, offsetof(struct entry, context));
	uint64_t last;
	memcpy(&last, &told.context, sizeof last);
	__atomic_store_n((uint64_t *)(void *)&to->context, last, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void begin(void)
{
	const char *named = getenv(FOLDER_VARIABLE);
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!named || page == MAP_FAILED || madvise(page, 4096, MADV_WIPEONFORK))
		return;
	pthread_key_create(&at_end_of_thread, drop_file);
	own_process = page;
	*own_process = getpid();
	folder = strdup(named);
}

/* ---- Originals ---- */

struct of_context {
	uint16_t number;
	int (*poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
	int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
	int (*post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	int (*post_srq_recv)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *, struct ibv_qp_init_attr_ex *);
};
struct of_queue { /* of an extended completion queue */
	uint16_t context;
	int (*start_poll)(struct ibv_cq_ex *, struct ibv_poll_cq_attr *);
	int (*next_poll)(struct ibv_cq_ex *);
};
struct of_pair { /* of an extended queue pair: its calls, and the entries of what is being built */
	uint16_t context;
	struct ibv_qp_ex calls;
	struct entry *built;
	unsigned count, room;
	unsigned first; /* entry of the request that is being built */
};
struct original {
	struct original *next;
	const void *object;
	union { struct of_context context; struct of_queue queue; struct of_pair pair; } of;
};

/* Originals by their object.  They are never taken away, so that looking one up needs no lock; an
 * object that is made anew at an address takes the place of the one that was there. */
static struct original *originals[BUCKETS];
static pthread_mutex_t originals_lock = PTHREAD_MUTEX_INITIALIZER;

static struct original **bucket_of(const void *object)
{
	return &originals[((uintptr_t)object >> 4) * 0x9e3779b97f4a7c15ull >> 50];
}

static struct original *original_of(const void *object)
{
	struct original *found = __atomic_load_n(bucket_of(object), __ATOMIC_ACQUIRE);
	while (found && found->object != object)
		found = found->next;
	return found;
}

/* The place for an object's originals; `is_new` tells whether it had none. */
static struct original *keep(const void *object, int *is_new)
{
	pthread_mutex_lock(&originals_lock);
	struct original *found = original_of(object), **bucket = bucket_of(object);
	*is_new = !found;
	if (!found && (found = calloc(1, sizeof *found))) {
		found->object = object;
		found->next = *bucket;
		__atomic_store_n(bucket, found, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&originals_lock);
	return found;
}

static uint16_t number_of(const struct ibv_context *context)
{
	struct original *found = original_of(context);
	return found ? found->of.context.number : 0;
}

/* The function of that name that the program would have called. */
static void *next_of(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name), *library;
	/* A library that was loaded for one module alone is behind nobody. */
	if (!found && (library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD)))
		found = dlsym(library, name);
	return found;
}

#define NEXT(name, otherwise)                                                                          \
	static __typeof__(name) *next;                                                                 \
	if (!next && !(next = (__typeof__(name) *)next_of(#name))) {                                   \
		errno = ENOSYS;                                                                        \
		return otherwise;                                                                      \
	}

/* ---- Requests ---- */

static void put_request(struct entry told, int kind, const struct ibv_sge *pieces, int count)
{
	count = count > MOST_PIECES ? MOST_PIECES : count;
	told.pieces = (uint8_t)count;
	for (int i = 0; i < (count ? count : 1); i++) {
		if (count) {
			told.address = pieces[i].addr;
			told.length = pieces[i].length;
			told.lkey = pieces[i].lkey;
		}
		told.piece = (uint8_t)i;
		put(kind, told);
	}
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	const struct of_context *was = &original_of(qp->context)->of.context;
	struct entry told = {.ticks = ticks(), .number = qp->qp_num, .context = was->number};
	int wrong = was->post_send(qp, wr, bad), is_ud = qp->qp_type == QPT_UD;
	for (; wr && !(wrong && wr == *bad); wr = wr->next) {
		told.wr_id = wr->wr_id;
		told.opcode = (uint16_t)wr->opcode;
		told.bits = wr->send_flags;
		if (is_ud) {
			told.remote = (uintptr_t)wr->wr.ud.ah;
			told.rkey = wr->wr.ud.remote_qpn;
		} else if (wr->opcode == WR_CMP_SWP || wr->opcode == WR_FETCH_ADD) {
			told.remote = wr->wr.atomic.remote_addr;
			told.rkey = wr->wr.atomic.rkey;
		} else {
			told.remote = wr->wr.rdma.remote_addr;
			told.rkey = wr->wr.rdma.rkey;
		}
		put_request(told, ENTRY_SEND, wr->sg_list, wr->num_sge);
	}
	return wrong;
}

static void put_receives(struct entry told, struct ibv_recv_wr *wr, const struct ibv_recv_wr *end)
{
	for (; wr && wr != end; wr = wr->next) {
		told.wr_id = wr->wr_id;
		put_request(told, ENTRY_RECEIVE, wr->sg_list, wr->num_sge);
	}
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const struct of_context *was = &original_of(qp->context)->of.context;
	struct entry told = {.ticks = ticks(), .number = qp->qp_num, .context = was->number};
	int wrong = was->post_recv(qp, wr, bad);
	put_receives(told, wr, wrong ? *bad : NULL);
	return wrong;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const struct of_context *was = &original_of(srq->context)->of.context;
	struct entry told = {.ticks = ticks(), .remote = (uintptr_t)srq, .context = was->number};
	int wrong = was->post_srq_recv(srq, wr, bad);
	put_receives(told, wr, wrong ? *bad : NULL);
	return wrong;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	const struct of_context *was = &original_of(cq->context)->of.context;
	int found = was->poll_cq(cq, most, wc);
	uint64_t now = found > 0 ? ticks() : 0;
	for (int i = 0; i < found; i++)
		put(ENTRY_COMPLETION, (struct entry){.ticks = now, .wr_id = wc[i].wr_id, .number = wc[i].qp_num,
			.opcode = (uint16_t)wc[i].opcode, .length = wc[i].byte_len, .bits = wc[i].wc_flags,
			.lkey = (uint32_t)wc[i].status, .remote = (uintptr_t)cq, .context = was->number});
	return found;
}

/* ---- Extended completion queues ---- */

static int looked(struct ibv_cq_ex *cq, const struct of_queue *was, int wrong)
{
	if (wrong)
		return wrong;
	struct entry told = {.ticks = ticks(), .wr_id = cq->wr_id, .lkey = (uint32_t)cq->status,
		.number = cq->read_qp_num ? cq->read_qp_num(cq) : 0, .remote = (uintptr_t)cq,
		.context = was->context};
	if (!cq->status) {
		told.opcode = (uint16_t)cq->read_opcode(cq);
		told.length = cq->read_byte_len ? cq->read_byte_len(cq) : 0;
	}
	put(ENTRY_COMPLETION, told);
	return 0;
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	const struct of_queue *was = &original_of(cq)->of.queue;
	return looked(cq, was, was->start_poll(cq, attr));
}

static int next_poll(struct ibv_cq_ex *cq)
{
	const struct of_queue *was = &original_of(cq)->of.queue;
	return looked(cq, was, was->next_poll(cq));
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	const struct of_context *was = &original_of(context)->of.context;
	/* Whose completion it is and how long the message was, whether the program asks or not. */
	struct ibv_cq_init_attr_ex more = *attr;
	more.wc_flags |= WC_WITH_BYTE_LEN | WC_WITH_QP_NUM;
	struct ibv_cq_ex *made = was->create_cq_ex(context, &more);
	if (!made)
		made = was->create_cq_ex(context, attr);
	int is_new;
	struct original *kept = made ? keep(made, &is_new) : NULL;
	if (kept) {
		kept->of.queue = (struct of_queue){was->number, made->start_poll, made->next_poll};
		made->start_poll = start_poll;
		made->next_poll = next_poll;
	}
	return made;
}

/* ---- Extended queue pairs ---- */

static void build(struct ibv_qp_ex *qp, struct entry told)
{
	struct of_pair *was = &original_of(qp)->of.pair;
	if (was->count == was->room) {
		unsigned room = was->room ? 2 * was->room : 64;
		struct entry *more = realloc(was->built, room * sizeof *more);
		if (!more)
			return;
		was->built = more;
		was->room = room;
	}
	was->built[was->count++] = told;
}

static void begin_request(struct ibv_qp_ex *qp, int opcode, uint32_t rkey, uint64_t remote)
{
	struct of_pair *was = &original_of(qp)->of.pair;
	was->first = was->count;
	build(qp, (struct entry){.wr_id = qp->wr_id, .bits = qp->wr_flags & ~(unsigned)SEND_INLINE,
		.opcode = (uint16_t)opcode, .rkey = rkey, .remote = remote, .number = qp->qp_base.qp_num,
		.context = was->context});
}

static void add_piece(struct ibv_qp_ex *qp, uint64_t address, uint64_t length, uint32_t lkey, unsigned flags)
{
	struct of_pair *was = &original_of(qp)->of.pair;
	if (was->first >= was->count)
		return;
	struct entry *head = &was->built[was->first];
	if (head->pieces) {
		build(qp, *head);
		head = &was->built[was->first];
	}
	struct entry *to = &was->built[was->count - 1];
	to->piece = head->pieces;
	to->address = address;
	to->length = length;
	to->lkey = lkey;
	to->bits |= flags;
	head->pieces++;
}

#define CALLS(qp) (&original_of(qp)->of.pair.calls)

#define BUILDER(name, opcode, rkey, remote, parameters, ...)                                           \
	static void name parameters                                                                    \
	{                                                                                              \
		begin_request(qp, opcode, rkey, remote);                                               \
		CALLS(qp)->name(__VA_ARGS__);                                                          \
	}
#define QP struct ibv_qp_ex *qp

BUILDER(wr_send, WR_SEND, 0, 0, (QP), qp)
BUILDER(wr_send_imm, WR_SEND_IMM, 0, 0, (QP, be32 imm), qp, imm)
BUILDER(wr_send_inv, WR_SEND_INV, 0, 0, (QP, uint32_t rkey), qp, rkey)
BUILDER(wr_send_tso, WR_TSO, 0, 0, (QP, void *head, uint16_t size, uint16_t mss), qp, head, size, mss)
BUILDER(wr_rdma_write, WR_RDMA_WRITE, rkey, remote, (QP, uint32_t rkey, uint64_t remote), qp, rkey, remote)
BUILDER(wr_rdma_write_imm, WR_RDMA_WRITE_IMM, rkey, remote, (QP, uint32_t rkey, uint64_t remote, be32 imm),
	qp, rkey, remote, imm)
BUILDER(wr_rdma_read, WR_RDMA_READ, rkey, remote, (QP, uint32_t rkey, uint64_t remote), qp, rkey, remote)
BUILDER(wr_atomic_cmp_swp, WR_CMP_SWP, rkey, remote,
	(QP, uint32_t rkey, uint64_t remote, uint64_t compare, uint64_t swap), qp, rkey, remote, compare, swap)
BUILDER(wr_atomic_fetch_add, WR_FETCH_ADD, rkey, remote, (QP, uint32_t rkey, uint64_t remote, uint64_t add),
	qp, rkey, remote, add)

static void wr_set_ud_addr(QP, struct ibv_ah *ah, uint32_t number, uint32_t qkey)
{
	struct of_pair *was = &original_of(qp)->of.pair;
	for (unsigned i = was->first; i < was->count; i++) {
		was->built[i].remote = (uintptr_t)ah;
		was->built[i].rkey = number;
	}
	was->calls.wr_set_ud_addr(qp, ah, number, qkey);
}

static void wr_set_inline_data(QP, void *data, size_t length)
{
	add_piece(qp, (uintptr_t)data, length, 0, SEND_INLINE);
	CALLS(qp)->wr_set_inline_data(qp, data, length);
}

static void wr_set_inline_data_list(QP, size_t count, const struct ibv_data_buf *data)
{
	for (size_t i = 0; i < count; i++)
		add_piece(qp, (uintptr_t)data[i].addr, data[i].length, 0, SEND_INLINE);
	CALLS(qp)->wr_set_inline_data_list(qp, count, data);
}

static void wr_set_sge(QP, uint32_t lkey, uint64_t address, uint32_t length)
{
	add_piece(qp, address, length, lkey, 0);
	CALLS(qp)->wr_set_sge(qp, lkey, address, length);
}

static void wr_set_sge_list(QP, size_t count, const struct ibv_sge *pieces)
{
	for (size_t i = 0; i < count; i++)
		add_piece(qp, pieces[i].addr, pieces[i].length, pieces[i].lkey, 0);
	CALLS(qp)->wr_set_sge_list(qp, count, pieces);
}

static void wr_start(QP)
{
	struct of_pair *was = &original_of(qp)->of.pair;
	was->calls.wr_start(qp); /* from here on nobody else builds on it */
	was->count = was->first = 0;
}

static int wr_complete(QP)
{
	struct of_pair *was = &original_of(qp)->of.pair;
	uint64_t now = ticks();
	/* Another thread may build on it as soon as this one has ended: take what is there first. */
	struct entry few[BUILT_AT_ONCE], *built = few;
	unsigned count = was->count;
	if (count > BUILT_AT_ONCE) {
		built = was->built;
		was->built = NULL;
		was->room = 0;
	} else if (count) {
		memcpy(few, was->built, count * sizeof *few);
	}
	int wrong = was->calls.wr_complete(qp);
	uint8_t pieces = 0;
	for (unsigned i = 0; !wrong && i < count; i++) {
		pieces = built[i].piece ? pieces : built[i].pieces;
		built[i].pieces = pieces;
		built[i].ticks = now;
		put(ENTRY_SEND, built[i]);
	}
	if (built != few)
		free(built);
	return wrong;
}

static void replace_builders(QP)
{
	int is_new;
	struct original *kept = keep(qp, &is_new);
	if (!kept || qp->wr_start == wr_start)
		return;
	kept->of.pair.context = number_of(qp->qp_base.context);
	/* What an older library's structure does not have is neither looked at nor replaced. */
	memcpy(&kept->of.pair.calls, qp, offsetof(struct ibv_qp_ex, wr_atomic_write));
#define REPLACE(name) qp->name = qp->name ? name : NULL
	REPLACE(wr_send), REPLACE(wr_send_imm), REPLACE(wr_send_inv), REPLACE(wr_send_tso);
	REPLACE(wr_rdma_write), REPLACE(wr_rdma_write_imm), REPLACE(wr_rdma_read);
	REPLACE(wr_atomic_cmp_swp), REPLACE(wr_atomic_fetch_add);
	REPLACE(wr_set_ud_addr), REPLACE(wr_set_inline_data), REPLACE(wr_set_inline_data_list);
	REPLACE(wr_set_sge), REPLACE(wr_set_sge_list), REPLACE(wr_start), REPLACE(wr_complete);
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	NEXT(ibv_qp_to_qp_ex, NULL)
	struct ibv_qp_ex *found = next(qp);
	if (found && found->wr_start)
		replace_builders(found);
	return found;
}

/* ---- Devices ---- */

static void put_qp(const struct ibv_qp *qp, const struct ibv_qp_cap *cap, int signals_all)
{
	put(ENTRY_CREATE_QP, (struct entry){.ticks = ticks(), .number = qp->qp_num, .opcode = (uint16_t)qp->qp_type,
		.wr_id = (uintptr_t)qp->srq, .address = cap->max_send_wr, .remote = cap->max_recv_wr,
		.length = cap->max_inline_data, .lkey = cap->max_send_sge, .rkey = cap->max_recv_sge,
		.bits = signals_all != 0, .context = number_of(qp->context)});
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *made = original_of(context)->of.context.create_qp_ex(context, attr);
	if (made)
		put_qp(made, &attr->cap, attr->sq_sig_all);
	return made;
}

static void put_gids(struct ibv_context *context, uint16_t number)
{
	int (*query)(struct ibv_context *, uint8_t, int, union ibv_gid *) =
		(int (*)(struct ibv_context *, uint8_t, int, union ibv_gid *))next_of("ibv_query_gid");
	union ibv_gid gid;
	static const union ibv_gid none;
	for (int i = 0; query && i < MOST_GIDS && !query(context, 1, i, &gid); i++)
		if (memcmp(&gid, &none, sizeof gid))
			put(ENTRY_GID, (struct entry){.ticks = ticks(), .address = gid.global.subnet_prefix,
				.remote = gid.global.interface_id, .opcode = (uint16_t)i, .context = number});
}

static struct ibv_context *opened(struct ibv_context *context)
{
	static uint16_t contexts;
	int is_new, before = errno;
	struct original *kept = context ? keep(context, &is_new) : NULL;
	if (!kept)
		return context;
	struct ibv_context_ops *ops = &context->ops;
	if (ops->poll_cq == poll_cq)
		return context; /* the library has handed out one that it had */
	uint16_t number = __atomic_add_fetch(&contexts, 1, __ATOMIC_RELAXED);
	kept->of.context = (struct of_context){.number = number, .poll_cq = ops->poll_cq,
		.post_send = ops->post_send, .post_recv = ops->post_recv, .post_srq_recv = ops->post_srq_recv};
	ops->poll_cq = poll_cq;
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	ops->post_srq_recv = post_srq_recv;
	if (context->abi_compat == IBV_EXTENDED) {
		struct verbs_context *verbs =
			(struct verbs_context *)((uint8_t *)context - offsetof(struct verbs_context, context));
		/* It grows at its beginning, so an older library's begins further on. */
#define HAS(member) (verbs->sz >= sizeof *verbs - offsetof(struct verbs_context, member) && verbs->member)
		if (HAS(create_cq_ex)) {
			kept->of.context.create_cq_ex = verbs->create_cq_ex;
			verbs->create_cq_ex = create_cq_ex;
		}
		if (HAS(create_qp_ex)) {
			kept->of.context.create_qp_ex = verbs->create_qp_ex;
			verbs->create_qp_ex = create_qp_ex;
		}
	}
	put_gids(context, number);
	errno = before;
	return context;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	NEXT(ibv_open_device, NULL)
	return opened(next(device));
}

EXPORT struct ibv_context *ibv_import_device(int cmd_fd);
EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	NEXT(ibv_import_device, NULL)
	return opened(next(cmd_fd));
}

/* ---- Regions, queue pairs, addresses ---- */

static struct ibv_mr *registered(struct ibv_mr *mr, uint64_t address, uint64_t length, uint64_t iova, unsigned access)
{
	if (mr && !mine.inside)
		put(ENTRY_REGISTER, (struct entry){.ticks = ticks(), .wr_id = (uintptr_t)mr, .address = address,
			.length = length, .remote = iova, .lkey = mr->lkey, .rkey = mr->rkey, .bits = access,
			.context = number_of(mr->context)});
	return mr;
}

/* One call of the library may be made of another that is exported: recorded once, as it was made. */
#define INSIDE(type, call)                                                                             \
	mine.inside++;                                                                                 \
	type made = call;                                                                              \
	mine.inside--;

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	NEXT(ibv_reg_mr, NULL)
	INSIDE(struct ibv_mr *, next(pd, addr, length, access))
	return registered(made, (uintptr_t)addr, length, (uintptr_t)addr, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	NEXT(ibv_reg_mr_iova, NULL)
	INSIDE(struct ibv_mr *, next(pd, addr, length, iova, access))
	return registered(made, (uintptr_t)addr, length, iova, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	NEXT(ibv_reg_mr_iova2, NULL)
	INSIDE(struct ibv_mr *, next(pd, addr, length, iova, access))
	return registered(made, (uintptr_t)addr, length, iova, access);
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
					int access)
{
	NEXT(ibv_reg_dmabuf_mr, NULL)
	INSIDE(struct ibv_mr *, next(pd, offset, length, iova, fd, access))
	return registered(made, iova, length, iova, (unsigned)access);
}

static void put_gone(const struct ibv_mr *mr, uint64_t now)
{
	if (!mine.inside)
		put(ENTRY_DEREGISTER, (struct entry){.ticks = now, .address = (uintptr_t)mr->addr,
			.length = mr->length, .lkey = mr->lkey, .context = number_of(mr->context)});
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	NEXT(ibv_rereg_mr, -1)
	struct ibv_mr before = *mr;
	uint64_t now = ticks();
	INSIDE(int, next(mr, flags, pd, addr, length, access))
	if (made)
		return made;
	put_gone(&before, now);
	registered(mr, (uintptr_t)mr->addr, mr->length, (uintptr_t)mr->addr,
		   flags & CHANGE_ACCESS ? (unsigned)access : RIGHTS_AS_BEFORE);
	return made;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	NEXT(ibv_dereg_mr, ENOSYS)
	struct ibv_mr before = *mr;
	uint64_t now = ticks();
	INSIDE(int, next(mr))
	if (!made)
		put_gone(&before, now);
	return made;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	NEXT(ibv_create_qp, NULL)
	INSIDE(struct ibv_qp *, next(pd, attr))
	if (made)
		put_qp(made, &attr->cap, attr->sq_sig_all);
	return made;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	NEXT(ibv_destroy_qp, ENOSYS)
	struct entry told = {.ticks = ticks(), .number = qp->qp_num, .context = number_of(qp->context)};
	INSIDE(int, next(qp))
	if (!made)
		put(ENTRY_DESTROY_QP, told);
	return made;
}

static struct entry address_of(const struct ibv_ah_attr *to)
{
	return (struct entry){.ticks = ticks(), .address = to->grh.dgid.global.subnet_prefix,
		.remote = to->grh.dgid.global.interface_id, .rkey = to->dlid, .bits = to->is_global != 0};
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	NEXT(ibv_modify_qp, ENOSYS)
	INSIDE(int, next(qp, attr, mask))
	if (!made && mask & MASK_AV) {
		struct entry told = address_of(&attr->ah_attr);
		told.number = qp->qp_num;
		told.lkey = mask & MASK_DEST_QPN ? attr->dest_qp_num : 0;
		told.context = number_of(qp->context);
		put(ENTRY_PATH, told);
	}
	return made;
}

static void put_ah(const struct ibv_ah *ah, const struct ibv_ah_attr *attr)
{
	struct entry told = address_of(attr);
	told.wr_id = (uintptr_t)ah;
	told.context = number_of(ah->context);
	put(ENTRY_CREATE_AH, told);
}

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	NEXT(ibv_create_ah, NULL)
	INSIDE(struct ibv_ah *, next(pd, attr))
	if (made)
		put_ah(made, attr);
	return made;
}

/* Made of two calls that are seen, so that the address is known; as rdma-core itself makes it. */
EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	static int (*init)(struct ibv_context *, uint8_t, struct ibv_wc *, struct ibv_grh *, struct ibv_ah_attr *);
	struct ibv_ah_attr attr = {0};
	if (!init)
		init = (int (*)(struct ibv_context *, uint8_t, struct ibv_wc *, struct ibv_grh *,
				struct ibv_ah_attr *))next_of("ibv_init_ah_from_wc");
	int wrong = init ? init(pd->context, port, wc, grh, &attr) : ENOSYS;
	if (wrong) {
		errno = wrong > 0 ? wrong : errno;
		return NULL;
	}
	return ibv_create_ah(pd, &attr);
}

/* ---- Programs that look the calls up ---- */

/* NCCL and others load libibverbs themselves and ask for its calls by version: they get those here,
 * which find the library's own in turn.  Every other question goes on as if it had been asked there. */
EXPORT void *dlvsym(void *restrict library, const char *restrict name, const char *restrict version)
{
#define CALL(name) {#name, (void (*)(void))name}
	static const struct { const char *name; void (*call)(void); } calls[] = {
		CALL(ibv_open_device), CALL(ibv_import_device), CALL(ibv_reg_mr), CALL(ibv_reg_mr_iova),
		CALL(ibv_reg_mr_iova2), CALL(ibv_reg_dmabuf_mr), CALL(ibv_rereg_mr), CALL(ibv_dereg_mr),
		CALL(ibv_create_qp), CALL(ibv_modify_qp), CALL(ibv_destroy_qp), CALL(ibv_qp_to_qp_ex),
		CALL(ibv_create_ah), CALL(ibv_create_ah_from_wc),
	};
	static void *(*next)(void *, const char *, const char *);
	if (!next)
		next = (void *(*)(void *, const char *, const char *))dlsym(RTLD_NEXT, "dlvsym");
	for (size_t i = 0; !strncmp(name, "ibv_", 4) && i < sizeof calls / sizeof *calls; i++)
		if (!strcmp(name, calls[i].name) && next(library, name, version))
			return (void *)(uintptr_t)calls[i].call;
	return next(library, name, version);
}
