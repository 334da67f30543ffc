/* The verbs that create, change and ask: each is a question to the machine by the socket, but for
 * what the program's own side knows. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "live.h"

struct live_link live_link = {.socket = -1, .bell = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
struct live_owner live_owners[LIVE_RINGS];

enum { PORT = 1, GIDS = 2, QPT_XRC_RECV = 10, QPT_XRC_SEND = 9, QPT_UD = 4, OLD_PORT_ATTR = 48 };
enum { MAX_GIDS = 8, LEAST_INLINE = 64 };
static const char PATH_VARIABLE[] = "NICSCOPE_LIVE"; /* where the machine listens */

/* ---- The machine ---- */

/* Send a question, with a descriptor if there is one, and have its answer; 0, or an errno. */
static int ask_with(struct live_question *q, struct live_answer *a, int given, int *taken, int most)
{
	struct iovec io = {q, sizeof *q};
	union { char bytes[CMSG_SPACE(2 * sizeof(int))]; struct cmsghdr align; } control;
	struct msghdr message = {.msg_iov = &io, .msg_iovlen = 1};
	memset(&control, 0, sizeof control);
	if (given >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(sizeof(int));
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &given, sizeof given);
	}
	ssize_t moved;
	do
		moved = sendmsg(live_link.socket, &message, MSG_NOSIGNAL);
	while (moved < 0 && errno == EINTR);
	if (moved != (ssize_t)sizeof *q)
		return EIO;
	io = (struct iovec){a, sizeof *a};
	message = (struct msghdr){.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes};
	do
		moved = recvmsg(live_link.socket, &message, MSG_CMSG_CLOEXEC);
	while (moved < 0 && errno == EINTR);
	if (moved != (ssize_t)sizeof *a)
		return EIO;
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	if (taken && head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN((size_t)most * sizeof(int)))
		memcpy(taken, CMSG_DATA(head), (size_t)most * sizeof(int));
	return (int)a->error;
}

static int ask(struct live_question *q, struct live_answer *a)
{
	pthread_mutex_lock(&live_link.lock);
	int wrong = live_link.segment ? ask_with(q, a, -1, NULL, 0) : EIO;
	pthread_mutex_unlock(&live_link.lock);
	return wrong;
}

EXPORT int live_ask_machine(struct live_question *q, struct live_answer *a, int given)
{
	pthread_mutex_lock(&live_link.lock);
	int wrong = live_link.segment ? ask_with(q, a, given, NULL, 0) : EIO;
	pthread_mutex_unlock(&live_link.lock);
	return wrong;
}

#define ASK(answer, name, ...) ask(&(struct live_question){LIVE_OP_##name, {__VA_ARGS__}}, answer)

EXPORT int live_is_there(void)
{
	char byte;
	return recv(live_link.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

EXPORT void live_await_end(void)
{
	while (live_is_there())
		poll(&(struct pollfd){.fd = live_link.socket}, 1, -1);
}

/* A forked child has no part in its parent's device: it may open its own. */
static void leave_to_parent(void)
{
	if (!live_link.segment)
		return;
	close(live_link.socket);
	close(live_link.bell);
	mmap(live_link.segment, LIVE_SEGMENT_BYTES, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	live_link.segment = NULL;
	live_link.socket = live_link.bell = -1;
	live_link.opened = 0;
	live_link.has_gone = 0;
	memset(live_owners, 0, sizeof live_owners);
	pthread_mutex_init(&live_link.lock, NULL);
}

static void lock_link(void) { pthread_mutex_lock(&live_link.lock); }
static void unlock_link(void) { pthread_mutex_unlock(&live_link.lock); }

static void detach(void)
{
	close(live_link.socket);
	live_link.socket = -1;
}

static int connect_machine(void)
{
	const char *path = getenv(PATH_VARIABLE);
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	if (!path || strlen(path) >= sizeof to.sun_path)
		return ENODEV;
	strcpy(to.sun_path, path);
	live_link.socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (live_link.socket < 0)
		return errno;
	if (connect(live_link.socket, (struct sockaddr *)&to, sizeof to)) {
		int wrong = errno;
		detach();
		return wrong;
	}
	return 0;
}

static int attach_locked(void)
{
	static int handles_forks;
	if (live_link.segment)
		return 0;
	int wrong = connect_machine();
	if (wrong)
		return wrong;
	struct ucred machine;
	socklen_t size = sizeof machine;
	if (getsockopt(live_link.socket, SOL_SOCKET, SO_PEERCRED, &machine, &size) || machine.uid != geteuid()) {
		detach();
		return EACCES;
	}
	prctl(PR_SET_PTRACER, (unsigned long)machine.pid, 0, 0, 0); /* whom Yama lets at our memory */
	struct live_question hello = {LIVE_OP_HELLO, {LIVE_FINGERPRINT, (uint64_t)getpid()}};
	struct live_answer answer;
	int given[2] = {-1, -1};
	wrong = ask_with(&hello, &answer, -1, given, 2);
	if (!wrong && (given[0] < 0 || given[1] < 0))
		wrong = EPROTO;
	if (wrong) {
		detach();
		return wrong;
	}
	void *at = mmap(NULL, LIVE_SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, given[0], 0);
	close(given[0]);
	live_link.bell = given[1];
	if (at == MAP_FAILED) {
		detach();
		return ENOMEM;
	}
	memcpy(live_link.facts, answer.word, sizeof live_link.facts);
	live_link.segment = at;
	live_link.header = at;
	live_link.rings = (struct live_ring *)(live_link.segment + LIVE_RINGS_AT);
	live_link.pid = getpid();
	if (!handles_forks++)
		pthread_atfork(lock_link, unlock_link, leave_to_parent);
	return 0;
}

static int attach(void)
{
	pthread_mutex_lock(&live_link.lock);
	int wrong = attach_locked();
	pthread_mutex_unlock(&live_link.lock);
	return wrong;
}

void live_open_queue(struct live_queue *q, uint64_t number, uint64_t at, uint64_t stride, uint64_t slots)
{
	pthread_spin_init(&q->lock, PTHREAD_PROCESS_PRIVATE);
	if (!slots)
		return;
	q->ring = &live_link.rings[number];
	q->slots = live_link.segment + at;
	q->number = (uint32_t)number;
	q->stride = (uint32_t)stride;
	q->mask = (uint32_t)slots - 1;
	q->next = 0;
}

static void set_owner(const struct live_queue *q, int kind, void *object)
{
	__atomic_store_n(&live_owners[q->number].kind, kind, __ATOMIC_RELAXED);
	__atomic_store_n(&live_owners[q->number].object, object, __ATOMIC_RELAXED);
}

static void own(const struct live_queue *q, int kind, void *object)
{
	pthread_mutex_lock(&live_link.lock);
	if (q->slots)
		set_owner(q, kind, object);
	pthread_mutex_unlock(&live_link.lock);
}

/* Another thread may have been given the ring since the machine took it back: that keeps it. */
static void disown(const struct live_queue *q, const void *object)
{
	pthread_mutex_lock(&live_link.lock);
	if (q->slots && live_owners[q->number].object == object)
		set_owner(q, LIVE_NONE, NULL);
	pthread_mutex_unlock(&live_link.lock);
}

static void *made(size_t size)
{
	void *object = calloc(1, size);
	if (!object)
		errno = ENOMEM;
	return object;
}

static void *failed(void *object, int wrong)
{
	free(object);
	errno = wrong;
	return NULL;
}

/* ---- Devices ---- */

static struct ibv_device the_device = {
	.node_type = 1, .transport_type = 0, .name = "nicscope0", .dev_name = "nicscope0",
	.dev_path = "/sys/class/infiniband_verbs/nicscope0", .ibdev_path = "/sys/class/infiniband/nicscope0",
};

EXPORT uint64_t live_fact(int which) { return live_link.facts[which]; }
EXPORT struct ibv_device *live_device(void) { return attach() ? NULL : &the_device; }

EXPORT struct ibv_device **ibv_get_device_list(int *count)
{
	int is_there = attach() == 0;
	struct ibv_device **list = made(2 * sizeof *list);
	if (!list)
		return NULL;
	if (is_there)
		list[0] = &the_device;
	if (count)
		*count = is_there;
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list) { free(list); }
EXPORT const char *ibv_get_device_name(struct ibv_device *device) { return device->name; }
EXPORT be64 ibv_get_device_guid(struct ibv_device *device) { (void)device; return live_link.facts[LIVE_FACT_GUID]; }
EXPORT int ibv_get_device_index(struct ibv_device *device) { (void)device; return -1; }

static struct live_context *live_of(struct ibv_context *context)
{
	return (struct live_context *)((uint8_t *)context - offsetof(struct live_context, verbs.context));
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	(void)context;
	if (port != PORT)
		return EINVAL;
	struct ibv_port_attr found = {.state = 4, .max_mtu = 5, .active_mtu = 5, .gid_tbl_len = MAX_GIDS,
		.port_cap_flags = 1 << 16 | 1 << 26, .max_msg_sz = (uint32_t)live_link.facts[LIVE_FACT_MAX_MSG_BYTES],
		.pkey_tbl_len = 1, .max_vl_num = 1, .active_width = 2, .active_speed = 32, .phys_state = 5,
		.link_layer = 2, .flags = 1};
	memset(attr, 0, size);
	memcpy(attr, &found, size < sizeof found ? size : sizeof found);
	return 0;
}

EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	return query_port(context, port, attr, OLD_PORT_ATTR);
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	const uint64_t *fact = live_link.facts;
	*attr = (struct ibv_device_attr){.fw_ver = "1.0.0", .node_guid = fact[LIVE_FACT_GUID],
		.sys_image_guid = fact[LIVE_FACT_GUID], .max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffffffffffff000, .vendor_id = 0x4e53, .vendor_part_id = 1, .hw_ver = 1,
		.max_qp = (int)fact[LIVE_FACT_MAX_QP], .max_qp_wr = (int)fact[LIVE_FACT_MAX_QP_WR],
		.device_cap_flags = 1 << 11 | 1 << 12 | 1 << 20,
		.max_sge = (int)fact[LIVE_FACT_MAX_SGE], .max_sge_rd = (int)fact[LIVE_FACT_MAX_SGE],
		.max_cq = (int)fact[LIVE_FACT_MAX_CQ], .max_cqe = (int)fact[LIVE_FACT_MAX_CQE],
		.max_mr = (int)fact[LIVE_FACT_MAX_MR], .max_pd = 1 << 20,
		.max_qp_rd_atom = (int)fact[LIVE_FACT_MAX_RD_ATOMIC], .max_res_rd_atom = 1 << 20,
		.max_qp_init_rd_atom = (int)fact[LIVE_FACT_MAX_RD_ATOMIC], .atomic_cap = 1, .max_ah = 1 << 20,
		.max_srq = (int)fact[LIVE_FACT_MAX_QP], .max_srq_wr = (int)fact[LIVE_FACT_MAX_SRQ_WR],
		.max_srq_sge = (int)fact[LIVE_FACT_MAX_SGE], .max_pkeys = 1, .phys_port_cnt = 1,
		.max_mcast_grp = 64, .max_mcast_qp_attach = LIVE_MEMBERS, .max_total_mcast_qp_attach = 64 * LIVE_MEMBERS};
	return 0;
}

static int query_device_ex(struct ibv_context *context, const void *input, struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex found = {.completion_timestamp_mask = UINT64_MAX, .hca_core_clock = 1000000,
		.phys_port_cnt_ex = 1};
	if (input && *(const uint32_t *)input)
		return EINVAL;
	if (size < sizeof found.orig_attr)
		return EINVAL;
	ibv_query_device(context, &found.orig_attr);
	found.device_cap_flags_ex = found.orig_attr.device_cap_flags;
	memset(attr, 0, size);
	memcpy(attr, &found, size < sizeof found ? size : sizeof found);
	return 0;
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	(void)context;
	if (port != PORT || index < 0 || index >= MAX_GIDS) {
		errno = EINVAL;
		return -1;
	}
	memset(gid, 0, sizeof *gid);
	if (index < GIDS)
		memcpy(gid, &live_link.facts[LIVE_FACT_GID0_HIGH + 2 * index], sizeof *gid);
	return 0;
}

EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type)
{
	(void)context;
	if (port != PORT || index >= MAX_GIDS) {
		errno = EINVAL;
		return -1;
	}
	*type = 1; /* RoCE v2, as this call numbers it */
	return 0;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
			     struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	struct ibv_gid_entry found = {.gid_index = index, .port_num = port, .gid_type = 2};
	if (flags || port != PORT || index >= MAX_GIDS)
		return EINVAL;
	if (index >= GIDS)
		return ENODATA;
	ibv_query_gid(context, PORT, (int)index, &found.gid);
	memcpy(entry, &found, size < sizeof found ? size : sizeof found);
	return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t most,
				    uint32_t flags, size_t size)
{
	if (flags || most < GIDS || size < sizeof *entries)
		return -EINVAL;
	for (uint32_t i = 0; i < GIDS; i++)
		_ibv_query_gid_ex(context, PORT, i, (struct ibv_gid_entry *)((uint8_t *)entries + i * size), 0, size);
	return GIDS;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, be16 *pkey)
{
	(void)context;
	if (port != PORT || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = 0xffff;
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, be16 pkey)
{
	(void)context;
	return port == PORT && (pkey | 0x80) == 0xffff ? 0 : -1;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, int type)
{
	(void)pd, (void)type;
	errno = EOPNOTSUPP;
	return NULL;
}
static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	(void)qp, (void)mw, (void)bind;
	return EOPNOTSUPP;
}
static int dealloc_mw(struct ibv_mw *mw)
{
	(void)mw;
	return EOPNOTSUPP;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *, struct ibv_qp_init_attr_ex *);
static struct ibv_srq *create_srq_ex(struct ibv_context *, struct ibv_srq_init_attr_ex *);
static struct ibv_cq_ex *create_cq_ex(struct ibv_context *, struct ibv_cq_init_attr_ex *);
static struct ibv_xrcd *open_xrcd(struct ibv_context *, struct ibv_xrcd_init_attr *);
static int close_xrcd(struct ibv_xrcd *);
static int get_srq_num(struct ibv_srq *, uint32_t *);

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	int wrong = attach(), ends[2];
	struct live_context *live = made(sizeof *live);
	if (!live || wrong)
		return failed(live, wrong ? wrong : ENOMEM);
	if (pipe2(ends, O_CLOEXEC))
		return failed(live, errno);
	pthread_mutex_lock(&live_link.lock);
	struct live_answer answer;
	struct live_question question = {LIVE_OP_CREATE_CHANNEL, {1}};
	wrong = ask_with(&question, &answer, ends[1], NULL, 0);
	live_link.opened += !wrong;
	pthread_mutex_unlock(&live_link.lock);
	close(ends[1]);
	if (wrong) {
		close(ends[0]);
		return failed(live, wrong);
	}
	live->async_write = (int)answer.word[0];
	struct verbs_context *verbs = &live->verbs;
	verbs->sz = sizeof *verbs;
	verbs->query_port = query_port;
	verbs->query_device_ex = query_device_ex;
	verbs->create_qp_ex = create_qp_ex;
	verbs->create_srq_ex = create_srq_ex;
	verbs->create_cq_ex = create_cq_ex;
	verbs->get_srq_num = get_srq_num;
	verbs->open_xrcd = open_xrcd;
	verbs->close_xrcd = close_xrcd;
	verbs->context = (struct ibv_context){.device = device, .cmd_fd = live_link.socket, .async_fd = ends[0],
		.num_comp_vectors = 1, .abi_compat = IBV_EXTENDED,
		.ops = {.alloc_mw = alloc_mw, .bind_mw = bind_mw, .dealloc_mw = dealloc_mw,
			.poll_cq = live_poll_cq, .req_notify_cq = live_req_notify_cq,
			.post_srq_recv = live_post_srq_recv, .post_send = live_post_send,
			.post_recv = live_post_recv}};
	pthread_mutex_init(&verbs->context.mutex, NULL);
	return &verbs->context;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	struct live_context *live = live_of(context);
	struct live_answer answer;
	ASK(&answer, DESTROY_CHANNEL, (uint64_t)live->async_write);
	close(context->async_fd);
	free(live);
	return 0;
}

/* ---- Domains and regions ---- */

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = made(sizeof *pd);
	struct live_answer answer;
	int wrong = pd ? ASK(&answer, ALLOC_PD, 0) : ENOMEM;
	if (wrong)
		return failed(pd, wrong);
	*pd = (struct ibv_pd){context, (uint32_t)answer.word[0]};
	return pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	struct live_answer answer;
	int wrong = ASK(&answer, DEALLOC_PD, pd->handle);
	if (!wrong)
		free(pd);
	return wrong;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	struct ibv_mr *mr = made(sizeof *mr);
	struct live_answer answer;
	int wrong = mr ? ASK(&answer, REG_MR, pd->handle, (uintptr_t)addr, length, iova, access) : ENOMEM;
	if (wrong)
		return failed(mr, wrong);
	*mr = (struct ibv_mr){pd->context, pd, addr, length, (uint32_t)answer.word[0], (uint32_t)answer.word[1],
		(uint32_t)answer.word[2]};
	return mr;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct live_answer answer;
	int wrong = ASK(&answer, DEREG_MR, mr->handle);
	if (!wrong)
		free(mr);
	return wrong;
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	enum { TRANSLATION = 1, PD = 2, ALL = 7, OF_INPUT = -1, OF_COMMAND = -4 };
	struct live_answer answer;
	if (!flags || flags & ~ALL || (flags & TRANSLATION && (!addr || !length)) || (flags & PD && !pd)) {
		errno = EINVAL;
		return OF_INPUT;
	}
	int wrong = ASK(&answer, REREG_MR, mr->handle, (uint64_t)flags, pd ? pd->handle : 0, (uintptr_t)addr, length,
			(unsigned)access);
	if (wrong) {
		errno = wrong;
		return OF_COMMAND; /* the region is as it was */
	}
	if (flags & TRANSLATION) {
		mr->addr = addr;
		mr->length = length;
	}
	if (flags & PD) {
		mr->pd = pd;
		mr->context = pd->context;
	}
	return 0;
}

/* ---- Completion channels and queues ---- */

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = made(sizeof *channel + sizeof(uint64_t));
	struct live_question question = {LIVE_OP_CREATE_CHANNEL, {0}};
	struct live_answer answer;
	int ends[2];
	if (!channel || pipe2(ends, O_CLOEXEC))
		return failed(channel, errno);
	pthread_mutex_lock(&live_link.lock);
	int wrong = live_link.segment ? ask_with(&question, &answer, ends[1], NULL, 0) : EIO;
	pthread_mutex_unlock(&live_link.lock);
	close(ends[1]);
	if (wrong) {
		close(ends[0]);
		return failed(channel, wrong);
	}
	*channel = (struct ibv_comp_channel){context, ends[0], 0};
	memcpy(channel + 1, &answer.word[0], sizeof answer.word[0]);
	return channel;
}

static uint64_t handle_of(const struct ibv_comp_channel *channel)
{
	uint64_t handle;
	memcpy(&handle, channel + 1, sizeof handle);
	return handle;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct live_answer answer;
	if (channel->refcnt)
		return EBUSY;
	int wrong = ASK(&answer, DESTROY_CHANNEL, handle_of(channel));
	if (!wrong) {
		close(channel->fd);
		free(channel);
	}
	return wrong;
}

/* Where a queue is: its number, place, size of a slot and slots. */
static void open_answered(struct live_queue *q, const uint64_t *word)
{
	live_open_queue(q, word[0], word[1], word[2], word[3]);
}

static struct live_cq *create_cq(struct ibv_context *context, int cqe, void *cq_context,
				 struct ibv_comp_channel *channel, unsigned vector)
{
	struct live_cq *cq = made(sizeof *cq);
	struct live_answer answer;
	int wrong = !cq ? ENOMEM : cqe < 1 || vector ? EINVAL : 0;
	if (!wrong)
		wrong = ASK(&answer, CREATE_CQ, (uint64_t)cqe, channel ? handle_of(channel) : 0, (uintptr_t)cq);
	if (wrong)
		return failed(cq, wrong);
	struct ibv_cq *base = &cq->ex.base;
	*base = (struct ibv_cq){.context = context, .channel = channel, .cq_context = cq_context,
		.handle = (uint32_t)answer.word[0], .cqe = (int)answer.word[1]};
	pthread_mutex_init(&base->mutex, NULL);
	pthread_cond_init(&base->cond, NULL);
	open_answered(&cq->queue, &answer.word[2]);
	own(&cq->queue, LIVE_COMPLETIONS, cq);
	if (channel)
		__atomic_fetch_add(&channel->refcnt, 1, __ATOMIC_RELAXED);
	return cq;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector)
{
	return (struct ibv_cq *)create_cq(context, cqe, cq_context, channel, (unsigned)vector);
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t known = 0x7f | 1 << 7; /* what every completion has, and its time */
	if (attr->comp_mask & ~3u || attr->wc_flags & ~known) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	struct live_cq *cq = create_cq(context, (int)attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
	if (cq)
		live_set_readers(&cq->ex);
	return cq ? &cq->ex : NULL;
}

EXPORT int ibv_resize_cq(struct ibv_cq *base, int cqe)
{
	struct live_queue *q = &((struct live_cq *)base)->queue;
	struct live_answer answer;
	if (cqe < 1)
		return EINVAL;
	pthread_spin_lock(&q->lock);
	int wrong = ASK(&answer, RESIZE_CQ, base->handle, (uint64_t)cqe);
	if (!wrong) {
		base->cqe = (int)answer.word[0];
		q->slots = live_link.segment + answer.word[2];
		q->mask = (uint32_t)answer.word[4] - 1;
	}
	pthread_spin_unlock(&q->lock);
	return wrong;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *base)
{
	struct live_cq *cq = (struct live_cq *)base;
	struct live_answer answer;
	int wrong = ASK(&answer, DESTROY_CQ, base->handle);
	if (wrong)
		return wrong;
	disown(&cq->queue, cq);
	if (base->channel)
		__atomic_fetch_sub(&base->channel->refcnt, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&base->mutex); /* every event that was taken has to be acknowledged */
	while (base->comp_events_completed != cq->events)
		pthread_cond_wait(&base->cond, &base->mutex);
	pthread_mutex_unlock(&base->mutex);
	free(cq);
	return 0;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	for (;;) {
		uint64_t event[2];
		ssize_t got = read(channel->fd, event, sizeof event);
		if (got < 0)
			return -1;
		if (got != (ssize_t)sizeof event) {
			errno = EIO; /* the machine has gone */
			return -1;
		}
		struct live_owner *owner = &live_owners[event[1] % LIVE_RINGS];
		if (owner->kind != LIVE_COMPLETIONS || (uintptr_t)owner->object != event[0])
			continue; /* of a queue that has been destroyed since */
		*cq = owner->object;
		__atomic_fetch_add(&((struct live_cq *)*cq)->events, 1, __ATOMIC_RELAXED);
		*cq_context = (*cq)->cq_context;
		return 0;
	}
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += count;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct live_event got;
	ssize_t size = read(context->async_fd, &got, sizeof got);
	if (size != (ssize_t)sizeof got) {
		if (size >= 0)
			errno = EIO;
		return -1;
	}
	event->event_type = (int)got.type;
	event->element.cq = (struct ibv_cq *)(uintptr_t)got.cookie;
	return 0;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event) { (void)event; }

/* ---- Shared receive queues ---- */

static struct ibv_srq *create_srq(struct ibv_context *context, struct ibv_pd *pd, void *srq_context,
				  struct ibv_srq_attr *attr, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct live_srq *srq = made(sizeof *srq);
	struct live_answer answer;
	uint64_t domain = xrcd ? *(uint64_t *)(xrcd + 1) : 0;
	int wrong = srq ? ASK(&answer, CREATE_SRQ, pd->handle, attr->max_wr, attr->max_sge, domain,
			      cq ? cq->handle : 0, (uintptr_t)srq) : ENOMEM;
	if (wrong)
		return failed(srq, wrong);
	srq->base = (struct ibv_srq){.context = context, .srq_context = srq_context, .pd = pd,
		.handle = (uint32_t)answer.word[0]};
	pthread_mutex_init(&srq->base.mutex, NULL);
	pthread_cond_init(&srq->base.cond, NULL);
	srq->cq = cq;
	srq->number = (uint32_t)answer.word[1];
	attr->max_wr = srq->max_wr = (uint32_t)answer.word[2];
	attr->max_sge = srq->max_sge = (uint32_t)answer.word[3];
	open_answered(&srq->queue, &answer.word[4]);
	own(&srq->queue, LIVE_SHARED, srq);
	return &srq->base;
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return create_srq(pd->context, pd, attr->srq_context, &attr->attr, NULL, NULL);
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	enum { TYPE = 1, PD = 2, XRCD = 4, CQ = 8, BASIC = 0, XRC = 1 };
	int type = attr->comp_mask & TYPE ? attr->srq_type : BASIC;
	if (type > XRC || attr->comp_mask & ~15u) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(attr->comp_mask & PD) || (type == XRC && (attr->comp_mask & (XRCD | CQ)) != (XRCD | CQ))) {
		errno = EINVAL;
		return NULL;
	}
	return create_srq(context, attr->pd, attr->srq_context, &attr->attr, type == XRC ? attr->xrcd : NULL,
			  type == XRC ? attr->cq : NULL);
}

static int get_srq_num(struct ibv_srq *base, uint32_t *number)
{
	*number = ((struct live_srq *)base)->number;
	return 0;
}

EXPORT int ibv_modify_srq(struct ibv_srq *base, struct ibv_srq_attr *attr, int mask)
{
	struct live_answer answer;
	return ASK(&answer, MODIFY_SRQ, base->handle, (uint64_t)mask, attr->max_wr, attr->srq_limit);
}

EXPORT int ibv_query_srq(struct ibv_srq *base, struct ibv_srq_attr *attr)
{
	struct live_srq *srq = (struct live_srq *)base;
	struct live_answer answer;
	int wrong = ASK(&answer, QUERY_SRQ, base->handle);
	if (!wrong)
		*attr = (struct ibv_srq_attr){srq->max_wr, srq->max_sge, (uint32_t)answer.word[0]};
	return wrong;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *base)
{
	struct live_srq *srq = (struct live_srq *)base;
	struct live_answer answer;
	int wrong = ASK(&answer, DESTROY_SRQ, base->handle);
	if (wrong)
		return wrong;
	if (srq->cq)
		live_forget_completions(srq->cq, (uint32_t)LIVE_NOBODY, srq->queue.number);
	disown(&srq->queue, srq);
	free(srq);
	return 0;
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct ibv_xrcd *xrcd = made(sizeof *xrcd + sizeof(uint64_t));
	struct live_answer answer;
	struct stat file = {0};
	/* A file names a domain of the device, and each process has a device of its own. */
	int has_file = attr->comp_mask & 1 && attr->fd != -1;
	int wrong = !xrcd ? ENOMEM : attr->comp_mask & ~3u ? EINVAL : has_file && fstat(attr->fd, &file) ? errno : 0;
	if (!wrong)
		wrong = ASK(&answer, OPEN_XRCD, (uint64_t)has_file, file.st_dev, file.st_ino);
	if (wrong)
		return failed(xrcd, wrong);
	xrcd->context = context;
	memcpy(xrcd + 1, &answer.word[0], sizeof(uint64_t));
	return xrcd;
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
	struct live_answer answer;
	int wrong = ASK(&answer, CLOSE_XRCD, *(uint64_t *)(xrcd + 1));
	if (!wrong)
		free(xrcd);
	return wrong;
}

/* ---- Queue pairs ---- */

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	enum { PD = 1, XRCD = 2, SEND_OPS = 64 };
	if (attr->comp_mask & ~(uint32_t)(PD | XRCD | SEND_OPS)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	struct ibv_pd *pd = attr->comp_mask & PD ? attr->pd : NULL;
	struct ibv_xrcd *xrcd = attr->comp_mask & XRCD ? attr->xrcd : NULL;
	if ((!pd && attr->qp_type != QPT_XRC_RECV) || (attr->qp_type == QPT_XRC_RECV && !xrcd)) {
		errno = EINVAL;
		return NULL;
	}
	struct live_qp *qp = made(sizeof *qp);
	struct live_answer answer;
	/* A request has this much room in any case, which programs count on that ask for none. */
	if (attr->qp_type != QPT_XRC_RECV && attr->cap.max_inline_data < LEAST_INLINE)
		attr->cap.max_inline_data = LEAST_INLINE;
	int wrong = qp ? ASK(&answer, CREATE_QP, pd ? pd->handle : 0, (uint64_t)attr->qp_type,
			     attr->send_cq ? attr->send_cq->handle : 0, attr->recv_cq ? attr->recv_cq->handle : 0,
			     attr->srq ? attr->srq->handle : 0, attr->cap.max_send_wr, attr->cap.max_recv_wr,
			     attr->cap.max_send_sge, attr->cap.max_recv_sge, attr->cap.max_inline_data,
			     (uint64_t)(attr->sq_sig_all != 0), xrcd ? *(uint64_t *)(xrcd + 1) : 0, (uintptr_t)qp)
		       : ENOMEM;
	if (wrong)
		return failed(qp, wrong);
	qp->ex.qp_base = (struct ibv_qp){.context = context, .qp_context = attr->qp_context, .pd = pd,
		.send_cq = attr->send_cq, .recv_cq = attr->recv_cq, .srq = attr->srq,
		.handle = (uint32_t)answer.word[0], .qp_num = (uint32_t)answer.word[0], .qp_type = attr->qp_type};
	pthread_mutex_init(&qp->ex.qp_base.mutex, NULL);
	pthread_cond_init(&qp->ex.qp_base.cond, NULL);
	qp->signals_all = attr->sq_sig_all;
	qp->cap = (struct ibv_qp_cap){(uint32_t)answer.word[1], (uint32_t)answer.word[2], (uint32_t)answer.word[3],
		(uint32_t)answer.word[4], (uint32_t)answer.word[5]};
	open_answered(&qp->send, &answer.word[6]);
	open_answered(&qp->receive, &answer.word[10]);
	own(&qp->send, LIVE_SEND, qp);
	own(&qp->receive, LIVE_RECEIVE, qp);
	attr->cap = qp->cap;
	qp->is_extended = (attr->comp_mask & SEND_OPS) != 0;
	if (qp->is_extended)
		live_set_builders(&qp->ex);
	return &qp->ex.qp_base;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex wide = {.qp_context = attr->qp_context, .send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq, .srq = attr->srq, .cap = attr->cap, .qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all, .comp_mask = 1, .pd = pd};
	struct ibv_qp *qp = create_qp_ex(pd->context, &wide);
	if (qp)
		attr->cap = wide.cap;
	return qp;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *base)
{
	struct live_qp *qp = (struct live_qp *)base;
	return qp->is_extended ? &qp->ex : NULL;
}

/* What the program has said of a queue pair, which it may ask for again. */
static void keep_attributes(struct ibv_qp_attr *held, const struct ibv_qp_attr *attr, int mask)
{
#define KEEP(bit, field) if (mask & 1 << (bit)) held->field = attr->field
	KEEP(3, qp_access_flags);
	KEEP(4, pkey_index);
	KEEP(5, port_num);
	KEEP(6, qkey);
	KEEP(7, ah_attr);
	KEEP(8, path_mtu);
	KEEP(9, timeout);
	KEEP(10, retry_cnt);
	KEEP(11, rnr_retry);
	KEEP(12, rq_psn);
	KEEP(13, max_rd_atomic);
	KEEP(15, min_rnr_timer);
	KEEP(16, sq_psn);
	KEEP(17, max_dest_rd_atomic);
	KEEP(20, dest_qp_num);
	KEEP(2, en_sqd_async_notify);
#undef KEEP
}

/* What a queue pair has left in its completion queues goes with what it was. */
static void forget_completions(const struct ibv_qp *qp)
{
	if (qp->send_cq)
		live_forget_completions(qp->send_cq, qp->qp_num, (uint32_t)LIVE_NOBODY);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		live_forget_completions(qp->recv_cq, qp->qp_num, (uint32_t)LIVE_NOBODY);
}

EXPORT int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	struct live_qp *qp = (struct live_qp *)base;
	struct live_answer answer;
	struct live_question q = {LIVE_OP_MODIFY_QP, {base->handle, (uint64_t)(unsigned)mask}};
	uint64_t *to = &q.word[2];
#define TELL(name, value) to[LIVE_ATTR_##name] = (uint64_t)(value)
	TELL(QP_STATE, attr->qp_state);
	TELL(CUR_QP_STATE, attr->cur_qp_state);
	TELL(PATH_MTU, attr->path_mtu);
	TELL(QKEY, attr->qkey);
	TELL(RQ_PSN, attr->rq_psn);
	TELL(SQ_PSN, attr->sq_psn);
	TELL(DEST_QP_NUM, attr->dest_qp_num);
	TELL(QP_ACCESS_FLAGS, attr->qp_access_flags);
	TELL(PKEY_INDEX, attr->pkey_index);
	TELL(EN_SQD_ASYNC_NOTIFY, attr->en_sqd_async_notify);
	TELL(MAX_RD_ATOMIC, attr->max_rd_atomic);
	TELL(MAX_DEST_RD_ATOMIC, attr->max_dest_rd_atomic);
	TELL(MIN_RNR_TIMER, attr->min_rnr_timer);
	TELL(PORT_NUM, attr->port_num);
	TELL(TIMEOUT, attr->timeout);
	TELL(RETRY_CNT, attr->retry_cnt);
	TELL(RNR_RETRY, attr->rnr_retry);
	memcpy(&to[LIVE_ATTR_DGID_HIGH], attr->ah_attr.grh.dgid.raw, 16);
	TELL(SGID_INDEX, attr->ah_attr.grh.sgid_index);
	TELL(IS_GLOBAL, attr->ah_attr.is_global);
#undef TELL
	int wrong = ask(&q, &answer);
	if (wrong)
		return wrong;
	if (answer.word[0] == 0) { /* RESET: its queues are empty, and what they had ended is gone */
		memset(&qp->held, 0, sizeof qp->held);
		forget_completions(base);
		qp->sends_done = qp->send.next;
		qp->receives_done = qp->receive.next;
	} else {
		keep_attributes(&qp->held, attr, mask);
	}
	base->state = (int)answer.word[0];
	return 0;
}

EXPORT int ibv_query_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct live_qp *qp = (struct live_qp *)base;
	struct live_answer answer;
	(void)mask;
	int wrong = ASK(&answer, QUERY_QP, base->handle);
	if (wrong)
		return wrong;
	base->state = (int)answer.word[0];
	*attr = qp->held;
	attr->qp_state = attr->cur_qp_state = base->state;
	attr->cap = qp->cap;
	*init = (struct ibv_qp_init_attr){base->qp_context, base->send_cq, base->recv_cq, base->srq, qp->cap,
		base->qp_type, qp->signals_all};
	return 0;
}

/* Whether what arrives becomes visible in order, which is not promised. */
EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, int op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *base)
{
	struct live_qp *qp = (struct live_qp *)base;
	struct live_answer answer;
	int wrong = ASK(&answer, DESTROY_QP, base->handle);
	if (wrong)
		return wrong;
	disown(&qp->send, qp);
	disown(&qp->receive, qp);
	forget_completions(base); /* and nobody is in the middle of one after that */
	free(qp);
	return 0;
}

/* ---- Addresses ---- */

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct live_ah *ah = made(sizeof *ah);
	if (!ah || !attr->is_global || attr->port_num != PORT || attr->grh.sgid_index >= GIDS)
		return failed(ah, ah ? EINVAL : ENOMEM);
	ah->base = (struct ibv_ah){pd->context, pd, 0};
	ah->attr = *attr;
	return &ah->base;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	free(ah);
	return 0;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			       struct ibv_ah_attr *attr)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	union ibv_gid source, own;
	const uint8_t *bytes = (const uint8_t *)grh;
	if (!(wc->wc_flags & 1))
		return EINVAL;
	if (bytes[20] == 0x45) { /* a header of version 4, behind 20 bytes of nothing */
		memcpy(source.raw, mapped, sizeof mapped);
		memcpy(source.raw + 12, bytes + 32, 4);
	} else {
		source = grh->sgid;
	}
	*attr = (struct ibv_ah_attr){.grh = {.dgid = source, .hop_limit = 0xff}, .is_global = 1, .port_num = port,
		.dlid = wc->slid, .sl = wc->sl};
	for (int i = 0; i < GIDS; i++) {
		ibv_query_gid(context, PORT, i, &own);
		if (!memcmp(own.raw, source.raw, sizeof mapped))
			attr->grh.sgid_index = (uint8_t)i;
	}
	return 0;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;
	int wrong = ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr);
	if (wrong) {
		errno = wrong;
		return NULL;
	}
	return ibv_create_ah(pd, &attr);
}

/* ---- Multicast groups ---- */

static int join(struct ibv_qp *qp, const union ibv_gid *gid, uint64_t operation)
{
	struct live_question q = {operation, {qp->handle}};
	struct live_answer answer;
	memcpy(&q.word[1], gid->raw, sizeof gid->raw);
	return ask(&q, &answer);
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return join(qp, gid, LIVE_OP_ATTACH_MCAST);
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return join(qp, gid, LIVE_OP_DETACH_MCAST);
}
