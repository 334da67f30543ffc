/* Stream rsockets: sockets' calls over verbs.  A connection is a reliable queue pair; bytes go as
 * messages from a ring of registered buffers into buffers that the peer has posted, of which it
 * tells in the head of what it sends.  An rsocket's number is its event channel's descriptor. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <time.h>

#include "cm_abi.h"
#include "live.h"

struct rdma_event_channel *rdma_create_event_channel(void);
void rdma_destroy_event_channel(struct rdma_event_channel *);
int rdma_create_id(struct rdma_event_channel *, struct rdma_cm_id **, void *, int);
int rdma_destroy_id(struct rdma_cm_id *);
int rdma_migrate_id(struct rdma_cm_id *, struct rdma_event_channel *);
int rdma_bind_addr(struct rdma_cm_id *, struct sockaddr *);
int rdma_resolve_addr(struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int);
int rdma_resolve_route(struct rdma_cm_id *, int);
int rdma_create_qp(struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *);
void rdma_destroy_qp(struct rdma_cm_id *);
int rdma_listen(struct rdma_cm_id *, int);
int rdma_connect(struct rdma_cm_id *, struct rdma_conn_param *);
int rdma_accept(struct rdma_cm_id *, struct rdma_conn_param *);
int rdma_reject(struct rdma_cm_id *, const void *, uint8_t);
int rdma_disconnect(struct rdma_cm_id *);
int rdma_get_cm_event(struct rdma_event_channel *, struct rdma_cm_event **);
int rdma_ack_cm_event(struct rdma_cm_event *);
int rdma_set_option(struct rdma_cm_id *, int, int, void *, size_t);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *, void *, size_t, int);
int ibv_dereg_mr(struct ibv_mr *);
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *);
int ibv_destroy_comp_channel(struct ibv_comp_channel *);
struct ibv_cq *ibv_create_cq(struct ibv_context *, int, void *, struct ibv_comp_channel *, int);
int ibv_destroy_cq(struct ibv_cq *);
int ibv_get_cq_event(struct ibv_comp_channel *, struct ibv_cq **, void **);
void ibv_ack_cq_events(struct ibv_cq *, unsigned);

enum { RC = 2, WRITE = 0, SEND = 2, LOCAL_WRITE = 1, REMOTE_WRITE = 2, A_SEND = 1 << 30 };
enum { SLOT = 16384, USUAL = 32, FEWEST = 4, MOST = 64, MOST_MAPS = 64, MOST_NUMBER = 65536, MAGIC = 0x72736b31 };
/* Of each end's buffers, beyond those for bytes: two messages of credits can be under way, as each
 * is about half of the buffers, and the one that ends the stream. */
enum { SPARE = 4 };
enum { PATIENCE_MS = 10000, NAP_MS = 100, RESOLVING_MS = 2000 };
enum { SOL_RDMA = 0x10000, SQSIZE = 0, RQSIZE, INLINE_BYTES, MAP_COUNT, ROUTE };

enum { DATA = 1, CREDITS, END, MAPPED, UNMAPPED };
struct head { uint32_t kind, credits; };
enum { PAYLOAD = SLOT - (int)sizeof(struct head) };
struct hello { uint32_t magic, receives; }; /* with a connection's request and answer */
struct map { uint64_t offset, bytes, address, key; };
struct own_map { struct map told; struct ibv_mr *mr; };
struct stretch { uint32_t slot, at, end; }; /* received, not yet read */

enum { FRESH, LISTENING, CONNECTING, ACCEPTED, UP }; /* accepted: the peer has yet to hear of it */
enum { O_SNDBUF, O_RCVBUF, O_REUSE, O_V6ONLY, O_MAPS, OPTIONS = 15 };
static const struct { int level, name, usual; } options[OPTIONS] = {
	[O_SNDBUF] = {SOL_SOCKET, SO_SNDBUF, USUAL * SLOT}, [O_RCVBUF] = {SOL_SOCKET, SO_RCVBUF, USUAL * SLOT},
	[O_REUSE] = {SOL_SOCKET, SO_REUSEADDR, 0}, [O_V6ONLY] = {IPPROTO_IPV6, IPV6_V6ONLY, 0},
	[O_MAPS] = {SOL_RDMA, MAP_COUNT, 0},
	/* Kept, without effect: a dead process is told of at once, a message leaves as it is sent. */
	{SOL_SOCKET, SO_KEEPALIVE, 0}, {SOL_SOCKET, SO_OOBINLINE, 0}, {IPPROTO_TCP, TCP_NODELAY, 0},
	{IPPROTO_TCP, TCP_MAXSEG, PAYLOAD}, {IPPROTO_TCP, TCP_KEEPIDLE, 7200}, {IPPROTO_TCP, TCP_KEEPINTVL, 75},
	{IPPROTO_TCP, TCP_KEEPCNT, 9}, {SOL_RDMA, SQSIZE, USUAL}, {SOL_RDMA, RQSIZE, USUAL}, {SOL_RDMA, INLINE_BYTES, 0},
};

struct rsock {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *memory; /* slots of receives, then of sends */
	pthread_mutex_t lock;
	pthread_cond_t moved;
	uint64_t changes; /* completions and events that were seen */
	int users, domain, state, error, is_nonblocking, is_awaited; /* a thread sleeps for all others */
	int has_ended, is_shut_in, is_shut_out, is_end_told, cannot_receive, cannot_send;
	uint32_t receives, sends, credits, owed;
	uint64_t sent, done;
	struct stretch queue[MOST + SPARE];
	uint64_t first, last; /* of the queue */
	int option[OPTIONS];
	struct linger linger;
	struct own_map own[MOST_MAPS];
	struct map theirs[MOST_MAPS];
};

static struct rsock *table[MOST_NUMBER];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static int wrong(int number)
{
	errno = number;
	return number ? -1 : 0;
}

static short now_at(int file)
{
	struct pollfd at = {.fd = file, .events = POLLIN};
	return poll(&at, 1, 0) > 0 ? at.revents : 0;
}

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Made and destroyed ---- */

static struct rsock *new_socket(int domain)
{
	struct rsock *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	if (!(s->events = rdma_create_event_channel()) || s->events->fd >= MOST_NUMBER) {
		if (s->events)
			rdma_destroy_event_channel(s->events);
		free(s);
		errno = errno ? errno : EMFILE;
		return NULL;
	}
	for (int i = 0; i < OPTIONS; i++)
		s->option[i] = options[i].usual;
	s->domain = domain;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->moved, NULL);
	return s;
}

static void drop_queues(struct rsock *s)
{
	rdma_destroy_qp(s->id);
	if (s->cq)
		ibv_destroy_cq(s->cq);
	if (s->completions)
		ibv_destroy_comp_channel(s->completions);
	if (s->mr)
		ibv_dereg_mr(s->mr);
	if (s->memory)
		munmap(s->memory, (s->receives + s->sends) * (size_t)SLOT);
	s->cq = NULL;
	s->completions = NULL;
	s->mr = NULL;
	s->memory = NULL;
}

static void destroy(struct rsock *s)
{
	if (s->id)
		drop_queues(s);
	for (int i = 0; i < MOST_MAPS; i++)
		if (s->own[i].mr)
			ibv_dereg_mr(s->own[i].mr);
	if (s->id)
		rdma_destroy_id(s->id);
	rdma_destroy_event_channel(s->events);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->moved);
	free(s);
}

static int enlist(struct rsock *s)
{
	pthread_mutex_lock(&table_lock);
	s->users = 1; /* until it is closed */
	table[s->events->fd] = s;
	pthread_mutex_unlock(&table_lock);
	return s->events->fd;
}

/* The rsocket of a number, locked; NULL, with EBADF, if it is none. */
static struct rsock *enter(int number)
{
	pthread_mutex_lock(&table_lock);
	struct rsock *s = number >= 0 && number < MOST_NUMBER ? table[number] : NULL;
	if (s)
		s->users++;
	pthread_mutex_unlock(&table_lock);
	if (s)
		pthread_mutex_lock(&s->lock);
	else
		errno = EBADF;
	return s;
}

/* The last to leave one that was closed destroys it. */
static void leave(struct rsock *s, int users)
{
	int error = errno;
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_lock(&table_lock);
	s->users -= users;
	int is_last = !s->users;
	pthread_mutex_unlock(&table_lock);
	if (is_last)
		destroy(s);
	errno = error;
}

static int is_a_socket(int number)
{
	pthread_mutex_lock(&table_lock);
	int found = number >= 0 && number < MOST_NUMBER && table[number];
	pthread_mutex_unlock(&table_lock);
	return found;
}

/* ---- Messages ---- */

static uint8_t *place(struct rsock *s, uint64_t slot) { return s->memory + slot * SLOT; }
static uint8_t *next_place(struct rsock *s) { return place(s, s->receives + s->sent % s->sends); }

static void post_receive(struct rsock *s, uint32_t slot)
{
	struct ibv_sge piece = {(uintptr_t)place(s, slot), SLOT, s->mr->lkey};
	struct ibv_recv_wr request = {.wr_id = slot, .sg_list = &piece, .num_sge = 1}, *bad;
	if (s->id->verbs->ops.post_recv(s->id->qp, &request, &bad))
		s->cannot_receive = s->cannot_send = 1;
}

static void post(struct rsock *s, struct ibv_send_wr request, uint32_t bytes)
{
	struct ibv_sge piece = {(uintptr_t)next_place(s), bytes, s->mr->lkey};
	struct ibv_send_wr *bad;
	request.wr_id = A_SEND;
	request.sg_list = &piece;
	request.num_sge = 1;
	if (s->id->verbs->ops.post_send(s->id->qp, &request, &bad))
		s->cannot_send = 1;
	else
		s->sent++;
}

/* Send a message whose payload is in the next place. */
static void tell(struct rsock *s, uint32_t kind, uint32_t bytes)
{
	struct head head = {kind, s->owed};
	memcpy(next_place(s), &head, sizeof head);
	s->owed = 0;
	s->credits -= kind != CREDITS && kind != END;
	post(s, (struct ibv_send_wr){.opcode = SEND}, (uint32_t)sizeof head + bytes);
}

/* What is said without being asked: buffers that are free again, the end of the stream. */
static void tell_what_is_due(struct rsock *s)
{
	if (s->state != UP || s->cannot_send || s->sent - s->done >= s->sends)
		return;
	if (s->is_shut_out && !s->is_end_told) {
		s->is_end_told = 1;
		tell(s, END, 0);
	} else if (s->owed >= (s->receives - SPARE) / 2) {
		tell(s, CREDITS, 0);
	}
}

static void note_map(struct rsock *s, uint32_t kind, const uint8_t *from)
{
	struct map told;
	memcpy(&told, from, sizeof told);
	for (int i = 0; i < MOST_MAPS; i++) {
		struct map *each = &s->theirs[i];
		if (kind == MAPPED ? !each->bytes : each->offset == told.offset && each->key == told.key) {
			*each = kind == MAPPED ? told : (struct map){0};
			return;
		}
	}
}

static void take_completion(struct rsock *s, const struct ibv_wc *wc)
{
	s->changes++;
	if (wc->wr_id == A_SEND) {
		s->done++;
		s->cannot_send |= wc->status != 0;
		return;
	}
	if (wc->status) {
		s->cannot_receive = s->cannot_send = 1;
		return;
	}
	struct head head = {0};
	uint32_t slot = (uint32_t)wc->wr_id;
	if (wc->byte_len >= sizeof head)
		memcpy(&head, place(s, slot), sizeof head);
	s->state = UP;
	s->credits += head.credits;
	if (head.kind == DATA && !s->is_shut_in) {
		s->queue[s->last++ % (MOST + SPARE)] = (struct stretch){slot, sizeof head, wc->byte_len};
		return;
	}
	s->has_ended |= head.kind == END;
	s->owed += head.kind != END && head.kind != CREDITS;
	if ((head.kind == MAPPED || head.kind == UNMAPPED) && wc->byte_len == sizeof head + sizeof(struct map))
		note_map(s, head.kind, place(s, slot) + sizeof head);
	post_receive(s, slot);
}

/* ---- Events ---- */

static void fail(struct rsock *s, int error)
{
	s->changes++;
	s->error = error;
	s->cannot_receive = s->cannot_send = 1;
	if (s->state == CONNECTING)
		s->state = FRESH;
}

static int read_hello(struct rsock *s, const struct rdma_conn_param *param)
{
	struct hello hello;
	if (!param->private_data || param->private_data_len < sizeof hello)
		return 0;
	memcpy(&hello, param->private_data, sizeof hello);
	s->credits = hello.receives;
	return hello.magic == MAGIC;
}

static void take_event(struct rsock *s, const struct rdma_cm_event *event)
{
	s->changes++;
	if (event->event == RDMA_CM_EVENT_ESTABLISHED && s->state == CONNECTING && !read_hello(s, &event->param.conn))
		fail(s, EPROTO); /* what listens there has no rsockets */
	else if (event->event == RDMA_CM_EVENT_ESTABLISHED)
		s->state = UP;
	else if (event->event == RDMA_CM_EVENT_DISCONNECTED)
		s->cannot_send = 1; /* receives end after what has arrived */
	else if (s->state == CONNECTING || s->state == ACCEPTED)
		fail(s, event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : ECONNRESET);
}

/* Take notice of all that has happened; sleeps for nothing. */
static void look_around(struct rsock *s)
{
	struct ibv_wc wc[16];
	struct rdma_cm_event *event;
	uint64_t before = s->changes;
	int found = 0;
	if (s->state < CONNECTING)
		return;
	while ((found = s->id->verbs->ops.poll_cq(s->cq, 16, wc)) > 0)
		for (int i = 0; i < found; i++)
			take_completion(s, &wc[i]);
	while (s->changes == before) {
		short at = now_at(s->events->fd);
		if (found < 0 || (at & (POLLIN | POLLHUP)) == POLLHUP)
			fail(s, EIO); /* the machine has gone */
		else if (!(at & POLLIN) || rdma_get_cm_event(s->events, &event))
			break;
		else {
			take_event(s, event);
			rdma_ack_cm_event(event);
		}
	}
	tell_what_is_due(s);
	if (s->changes != before)
		pthread_cond_broadcast(&s->moved);
}

/* After a sleep: no thread but the one that sleeps for all takes the channel's events. */
static void drain(struct rsock *s)
{
	struct ibv_cq *cq;
	void *program;
	if (s->completions && now_at(s->completions->fd) & POLLIN && !ibv_get_cq_event(s->completions, &cq, &program))
		ibv_ack_cq_events(cq, 1);
}

/* What to sleep on. */
static nfds_t arm(struct rsock *s, struct pollfd at[2])
{
	at[0] = (struct pollfd){.fd = s->events->fd, .events = POLLIN};
	at[1] = (struct pollfd){.fd = s->completions ? s->completions->fd : -1, .events = POLLIN};
	if (s->cq)
		s->id->verbs->ops.req_notify_cq(s->cq, 0);
	look_around(s);
	return 2;
}

/* Sleep until something has happened; -1 after a signal. */
static int await(struct rsock *s, int timeout_ms)
{
	struct pollfd at[2];
	uint64_t before = s->changes;
	int found = 0;
	if (s->is_awaited) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += NAP_MS * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&s->moved, &s->lock, &until);
		return 0;
	}
	s->is_awaited = 1;
	arm(s, at);
	if (s->changes == before) {
		pthread_mutex_unlock(&s->lock);
		found = poll(at, 2, timeout_ms);
		int error = errno;
		pthread_mutex_lock(&s->lock);
		drain(s);
		look_around(s);
		errno = error;
	}
	s->is_awaited = 0;
	pthread_cond_broadcast(&s->moved);
	return found < 0 ? -1 : 0;
}

/* ---- Connections ---- */

static uint32_t slots(int bytes)
{
	return bytes < FEWEST * SLOT ? FEWEST : bytes > MOST * SLOT ? MOST : (uint32_t)bytes / SLOT;
}

static int open_queues(struct rsock *s)
{
	s->receives = slots(s->option[O_RCVBUF]) + SPARE;
	s->sends = slots(s->option[O_SNDBUF]) + SPARE;
	size_t bytes = (s->receives + s->sends) * (size_t)SLOT;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -1;
	s->memory = memory;
	if (!(s->mr = ibv_reg_mr(s->id->pd, memory, bytes, LOCAL_WRITE)) ||
	    !(s->completions = ibv_create_comp_channel(s->id->verbs)) ||
	    !(s->cq = ibv_create_cq(s->id->verbs, (int)(s->receives + s->sends), NULL, s->completions, 0)))
		return -1;
	struct ibv_qp_init_attr attr = {.send_cq = s->cq, .recv_cq = s->cq, .qp_type = RC, .sq_sig_all = 1,
		.cap = {.max_send_wr = s->sends, .max_recv_wr = s->receives, .max_send_sge = 1, .max_recv_sge = 1}};
	if (rdma_create_qp(s->id, s->id->pd, &attr))
		return -1;
	for (uint32_t slot = 0; slot < s->receives; slot++)
		post_receive(s, slot);
	return 0;
}

static struct rdma_conn_param parameters(struct rsock *s, struct hello *hello)
{
	*hello = (struct hello){MAGIC, s->receives - SPARE};
	return (struct rdma_conn_param){.private_data = hello, .private_data_len = sizeof *hello, .responder_resources = 1,
		.initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
}

/* 0 where what an event tells of has been done. */
static int expect(struct rsock *s, int failed, int kind)
{
	struct rdma_cm_event *event;
	if (failed || rdma_get_cm_event(s->events, &event))
		return -1;
	int found = event->event;
	rdma_ack_cm_event(event);
	return wrong(found == kind ? 0 : EHOSTUNREACH);
}

static int begin_to_connect(struct rsock *s, struct sockaddr *to)
{
	struct hello hello;
	drop_queues(s);
	s->error = s->cannot_receive = s->cannot_send = 0;
	if (expect(s, rdma_resolve_addr(s->id, NULL, to, RESOLVING_MS), RDMA_CM_EVENT_ADDR_RESOLVED) ||
	    expect(s, rdma_resolve_route(s->id, RESOLVING_MS), RDMA_CM_EVENT_ROUTE_RESOLVED) || open_queues(s))
		return -1;
	struct rdma_conn_param param = parameters(s, &hello);
	if (rdma_connect(s->id, &param))
		return -1;
	s->state = CONNECTING;
	return 0;
}

/* The connection that an event asks for; NULL, with errno: ECONNABORTED if who asked has gone. */
static struct rsock *accepted(struct rsock *listener, struct rdma_cm_event *event)
{
	struct rsock *s = new_socket(listener->domain);
	struct hello hello;
	if (s)
		memcpy(s->option, listener->option, sizeof s->option);
	if (!s || rdma_migrate_id(event->id, s->events)) {
		int error = errno;
		rdma_reject(event->id, NULL, 0);
		rdma_destroy_id(event->id);
		if (s)
			destroy(s);
		errno = error;
		return NULL;
	}
	s->id = event->id;
	int is_one = read_hello(s, &event->param.conn);
	int failed = !is_one || open_queues(s);
	struct rdma_conn_param param = parameters(s, &hello);
	int error = is_one ? errno : ECONNABORTED;
	if (failed)
		rdma_reject(s->id, NULL, 0);
	else if (rdma_accept(s->id, &param))
		failed = 1, error = ECONNABORTED;
	if (failed) {
		destroy(s);
		errno = error;
		return NULL;
	}
	s->state = ACCEPTED;
	return s;
}

static void give_address(struct rsock *s, const struct sockaddr_in *from, struct sockaddr *to, socklen_t *bytes)
{
	struct sockaddr_in6 wide = {.sin6_family = AF_INET6, .sin6_port = from->sin_port};
	int is_6 = s->domain == AF_INET6;
	socklen_t size = is_6 ? sizeof wide : sizeof *from;
	if (from->sin_addr.s_addr) {
		wide.sin6_addr.s6_addr[10] = wide.sin6_addr.s6_addr[11] = 0xff;
		memcpy(wide.sin6_addr.s6_addr + 12, &from->sin_addr, 4);
	}
	if (!to || !bytes)
		return;
	memcpy(to, is_6 ? (const void *)&wide : (const void *)from, *bytes < size ? *bytes : size);
	*bytes = size;
}

EXPORT int rsocket(int domain, int type, int protocol)
{
	if (domain != AF_INET && domain != AF_INET6)
		return wrong(EAFNOSUPPORT);
	if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM)
		return wrong(EOPNOTSUPP);
	if (protocol && protocol != IPPROTO_TCP)
		return wrong(EPROTONOSUPPORT);
	struct rsock *s = new_socket(domain);
	if (!s)
		return -1;
	s->is_nonblocking = (type & SOCK_NONBLOCK) != 0;
	if (rdma_create_id(s->events, &s->id, s, RDMA_PS_TCP)) {
		int error = errno;
		s->id = NULL;
		destroy(s);
		return wrong(error);
	}
	return enlist(s);
}

EXPORT int rbind(int number, const struct sockaddr *at, socklen_t bytes)
{
	struct rsock *s = enter(number);
	if (!s)
		return -1;
	int is_fit = s->state == FRESH && bytes >= sizeof(struct sockaddr_in);
	int failed = is_fit ? rdma_bind_addr(s->id, (struct sockaddr *)(uintptr_t)at) : wrong(EINVAL);
	leave(s, 1);
	return failed;
}

EXPORT int rlisten(int number, int backlog)
{
	struct rsock *s = enter(number);
	if (!s)
		return -1;
	int failed = s->state > LISTENING ? wrong(EINVAL) : rdma_listen(s->id, backlog);
	s->state = failed ? s->state : LISTENING;
	leave(s, 1);
	return failed;
}

EXPORT int raccept(int number, struct sockaddr *from, socklen_t *bytes)
{
	struct rsock *s = enter(number), *made = NULL;
	struct rdma_cm_event *event;
	if (!s)
		return -1;
	int error = s->state == LISTENING ? 0 : EINVAL;
	while (!error && !made) {
		short at = now_at(s->events->fd);
		if (at & POLLIN && !rdma_get_cm_event(s->events, &event)) {
			int is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
			made = is_request ? accepted(s, event) : NULL;
			error = is_request && !made && errno != ECONNABORTED ? errno : 0;
			rdma_ack_cm_event(event);
		} else if (at) {
			error = EIO;
		} else if (s->is_nonblocking || await(s, -1)) {
			error = s->is_nonblocking ? EAGAIN : errno;
		}
	}
	if (made)
		give_address(made, &made->id->route.addr.dst_sin, from, bytes);
	leave(s, 1);
	return made ? enlist(made) : wrong(error);
}

EXPORT int rconnect(int number, const struct sockaddr *to, socklen_t bytes)
{
	static const int refusal[] = {[LISTENING] = EINVAL, [CONNECTING] = EALREADY, [ACCEPTED] = EISCONN, [UP] = EISCONN};
	struct rsock *s = enter(number);
	if (!s)
		return -1;
	int error = refusal[s->state];
	if (!error && bytes < sizeof(struct sockaddr_in))
		error = EINVAL;
	if (!error && begin_to_connect(s, (struct sockaddr *)(uintptr_t)to))
		error = errno ? errno : EIO;
	while (!error && s->state == CONNECTING)
		error = s->is_nonblocking ? EINPROGRESS : await(s, -1) ? errno : 0;
	if (!error && s->state == FRESH) {
		error = s->error;
		s->error = 0;
	}
	leave(s, 1);
	return wrong(error);
}

EXPORT int rshutdown(int number, int how)
{
	struct rsock *s = enter(number);
	if (!s)
		return -1;
	int error = how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR ? EINVAL : s->state < ACCEPTED ? ENOTCONN : 0;
	if (!error && how != SHUT_WR) {
		s->is_shut_in = 1;
		for (; s->first < s->last; s->owed++)
			post_receive(s, s->queue[s->first++ % (MOST + SPARE)].slot);
	}
	if (!error) {
		s->is_shut_out |= how != SHUT_RD;
		look_around(s);
	}
	pthread_cond_broadcast(&s->moved);
	leave(s, 1);
	return wrong(error);
}

/* What was sent is with the peer when this ends, unless the peer has gone. */
EXPORT int rclose(int number)
{
	struct rsock *s = enter(number);
	if (!s)
		return -1;
	pthread_mutex_lock(&table_lock);
	int is_first = table[number] == s;
	table[number] = is_first ? NULL : table[number];
	pthread_mutex_unlock(&table_lock);
	if (!is_first) {
		leave(s, 1);
		return wrong(EBADF);
	}
	int64_t until = now_ms() + (s->linger.l_onoff ? s->linger.l_linger * 1000 : PATIENCE_MS), now;
	s->is_shut_in = s->is_shut_out = 1;
	look_around(s);
	while (s->state >= ACCEPTED && !s->cannot_send && (!s->is_end_told || s->done < s->sent) && (now = now_ms()) < until)
		await(s, (int)(until - now));
	if (s->state >= CONNECTING)
		rdma_disconnect(s->id); /* and whoever still waits for it wakes */
	leave(s, 2);
	return 0;
}

/* ---- Bytes ---- */

/* 0 once there is room to send, of credits too where the message takes one; else an errno. */
static int await_room(struct rsock *s, int takes_credit, int waits)
{
	for (int is_known = 0;; is_known = 1) {
		if (s->state < CONNECTING)
			return ENOTCONN;
		if (s->is_shut_out)
			return EPIPE;
		if (is_known && s->cannot_send)
			return s->has_ended ? EPIPE : s->error ? s->error : ECONNRESET;
		if (is_known && s->state == UP && (s->credits || !takes_credit) && s->sent - s->done < s->sends - SPARE)
			return 0;
		if (is_known && !waits)
			return EAGAIN;
		if (!is_known)
			look_around(s);
		else if (await(s, -1))
			return errno;
	}
}

/* Bytes of them that were sent, or -1. */
static ssize_t send_all(int number, const struct iovec *from, int count, int flags)
{
	struct rsock *s = enter(number);
	ssize_t sent = 0;
	int error = 0;
	if (!s)
		return -1;
	int waits = !s->is_nonblocking && !(flags & MSG_DONTWAIT);
	for (int i = 0; i < count && !error; i++) {
		for (size_t at = 0; at < from[i].iov_len && !(error = await_room(s, 1, waits));) {
			size_t part = from[i].iov_len - at < PAYLOAD ? from[i].iov_len - at : PAYLOAD;
			memcpy(next_place(s) + sizeof(struct head), (const uint8_t *)from[i].iov_base + at, part);
			tell(s, DATA, (uint32_t)part);
			at += part;
			sent += (ssize_t)part;
		}
	}
	leave(s, 1);
	return sent || !error ? sent : wrong(error);
}

static int await_bytes(struct rsock *s, int waits)
{
	look_around(s);
	while (s->first == s->last) {
		if (s->state < CONNECTING)
			return ENOTCONN;
		if (s->is_shut_in || s->has_ended)
			return EPIPE; /* the end */
		if (s->cannot_receive)
			return s->error ? s->error : ECONNRESET;
		if (!waits)
			return EAGAIN;
		if (await(s, -1))
			return errno;
	}
	return 0;
}

/* Into `to` from what has come; what was only looked at stays. */
static size_t take_bytes(struct rsock *s, uint8_t *to, size_t most, int is_look)
{
	size_t taken = 0;
	for (uint64_t next = s->first; next < s->last && taken < most; next++) {
		struct stretch *each = &s->queue[next % (MOST + SPARE)];
		size_t part = each->end - each->at < most - taken ? each->end - each->at : most - taken;
		memcpy(to + taken, place(s, each->slot) + each->at, part);
		taken += part;
		each->at += is_look ? 0 : (uint32_t)part;
		if (each->at < each->end)
			continue;
		post_receive(s, each->slot);
		s->first++;
		s->owed++;
	}
	if (!is_look)
		tell_what_is_due(s);
	return taken;
}

static ssize_t receive_all(int number, const struct iovec *to, int count, int flags)
{
	struct rsock *s = enter(number);
	ssize_t found = 0;
	int error = 0;
	if (!s)
		return -1;
	int waits = !s->is_nonblocking && !(flags & MSG_DONTWAIT), is_look = flags & MSG_PEEK;
	for (int i = 0; i < count && !error; i++) {
		for (size_t at = 0; at < to[i].iov_len && !(error = await_bytes(s, waits && (!found || flags & MSG_WAITALL)));) {
			size_t part = take_bytes(s, (uint8_t *)to[i].iov_base + at, to[i].iov_len - at, is_look);
			at += part;
			found += (ssize_t)part;
			if (is_look)
				goto done; /* one piece is enough to look at */
		}
	}
done:
	leave(s, 1);
	return found || !error || error == EPIPE ? found : wrong(error);
}

EXPORT ssize_t rsend(int number, const void *from, size_t bytes, int flags)
{
	return send_all(number, &(struct iovec){(void *)(uintptr_t)from, bytes}, 1, flags);
}

EXPORT ssize_t rsendto(int number, const void *from, size_t bytes, int flags, const struct sockaddr *to, socklen_t size)
{
	(void)to, (void)size; /* a stream has one peer */
	return rsend(number, from, bytes, flags);
}

EXPORT ssize_t rsendmsg(int number, const struct msghdr *message, int flags)
{
	if (message->msg_controllen)
		return wrong(EOPNOTSUPP);
	return send_all(number, message->msg_iov, (int)message->msg_iovlen, flags);
}

EXPORT ssize_t rwrite(int number, const void *from, size_t bytes) { return rsend(number, from, bytes, 0); }
EXPORT ssize_t rwritev(int number, const struct iovec *from, int count) { return send_all(number, from, count, 0); }

EXPORT ssize_t rrecv(int number, void *to, size_t bytes, int flags)
{
	return receive_all(number, &(struct iovec){to, bytes}, 1, flags);
}

EXPORT ssize_t rrecvfrom(int number, void *to, size_t bytes, int flags, struct sockaddr *from, socklen_t *size)
{
	ssize_t found = rrecv(number, to, bytes, flags);
	if (from && size && found >= 0)
		*size = 0; /* a stream has one peer */
	return found;
}

EXPORT ssize_t rrecvmsg(int number, struct msghdr *message, int flags)
{
	ssize_t found = receive_all(number, message->msg_iov, (int)message->msg_iovlen, flags);
	if (found >= 0)
		message->msg_controllen = message->msg_namelen = 0, message->msg_flags = 0;
	return found;
}

EXPORT ssize_t rread(int number, void *to, size_t bytes) { return rrecv(number, to, bytes, 0); }
EXPORT ssize_t rreadv(int number, const struct iovec *to, int count) { return receive_all(number, to, count, 0); }

/* ---- Regions that the peer writes into ---- */

static void tell_of(struct rsock *s, uint32_t kind, const struct map *map)
{
	memcpy(next_place(s) + sizeof(struct head), map, sizeof *map);
	tell(s, kind, sizeof *map);
}

EXPORT off_t riomap(int number, void *at, size_t bytes, int prot, int flags, off_t offset)
{
	struct rsock *s = enter(number);
	if (!s)
		return -1;
	int slot = 0, error = flags || !bytes ? EINVAL : 0;
	while (slot < MOST_MAPS && s->own[slot].told.bytes)
		slot++;
	if (!error && (slot >= s->option[O_MAPS] || slot == MOST_MAPS))
		error = ENOMEM;
	struct own_map made = {{offset == -1 ? (uintptr_t)at : (uint64_t)offset, bytes, (uintptr_t)at, 0}, NULL};
	if (!error && prot & PROT_WRITE && !(error = await_room(s, 1, 1))) {
		if ((made.mr = ibv_reg_mr(s->id->pd, at, bytes, LOCAL_WRITE | REMOTE_WRITE))) {
			made.told.key = made.mr->rkey;
			tell_of(s, MAPPED, &made.told);
		} else {
			error = errno;
		}
	}
	if (!error)
		s->own[slot] = made;
	leave(s, 1);
	return error ? wrong(error) : (off_t)made.told.offset;
}

EXPORT int riounmap(int number, void *at, size_t bytes)
{
	struct rsock *s = enter(number);
	if (!s)
		return -1;
	int error = EINVAL;
	for (int i = 0; i < MOST_MAPS && error; i++) {
		struct own_map *each = &s->own[i];
		if (!each->told.bytes || each->told.address != (uintptr_t)at || each->told.bytes != bytes)
			continue;
		error = 0;
		if (each->mr && !await_room(s, 1, 1))
			tell_of(s, UNMAPPED, &each->told);
		if (each->mr)
			ibv_dereg_mr(each->mr);
		*each = (struct own_map){{0}, NULL};
	}
	leave(s, 1);
	return wrong(error);
}

EXPORT size_t riowrite(int number, const void *from, size_t bytes, off_t offset, int flags)
{
	struct rsock *s = enter(number);
	size_t sent = 0;
	int error = 0;
	if (!s)
		return (size_t)-1;
	int waits = !s->is_nonblocking && !(flags & MSG_DONTWAIT);
	while (sent < bytes && !(error = await_room(s, 0, waits))) {
		uint64_t at = (uint64_t)offset + sent;
		struct map *map = s->theirs, *end = map + MOST_MAPS;
		while (map < end && (at < map->offset || at - map->offset >= map->bytes))
			map++;
		if (map == end) {
			error = EFAULT; /* the peer has mapped nothing there */
			break;
		}
		uint64_t rest = map->bytes - (at - map->offset);
		size_t part = bytes - sent < SLOT ? bytes - sent : SLOT;
		part = part < rest ? part : rest;
		memcpy(next_place(s), (const uint8_t *)from + sent, part);
		post(s, (struct ibv_send_wr){.opcode = WRITE,
			.wr.rdma = {map->address + (at - map->offset), (uint32_t)map->key}}, (uint32_t)part);
		sent += part;
	}
	leave(s, 1);
	return sent || !error ? sent : (size_t)wrong(error);
}

/* ---- Many at once ---- */

static short look(struct rsock *s)
{
	int found = 0, can_read = s->first < s->last || s->has_ended || s->cannot_receive || s->is_shut_in;
	if (s->state == LISTENING)
		return now_at(s->events->fd);
	if (s->state == FRESH)
		return POLLOUT | POLLHUP | (s->error ? POLLERR : 0);
	if (can_read)
		found |= POLLIN | POLLRDNORM;
	if (s->cannot_send || s->is_shut_out ||
	    (s->state == UP && s->credits && s->sent - s->done < s->sends - SPARE))
		found |= POLLOUT | POLLWRNORM;
	if (s->has_ended || s->cannot_receive)
		found |= POLLRDHUP | (s->is_shut_out || s->cannot_send ? POLLHUP : 0) | (s->has_ended ? 0 : POLLERR);
	return (short)found;
}

/* Which of them are ready, by their queues; what the kernel says of the others is in `real`. */
static int look_at_all(struct pollfd *at, nfds_t count, struct pollfd *real)
{
	int ready = 0;
	for (nfds_t i = 0; i < count; i++, real += 2) {
		struct rsock *s = at[i].fd >= 0 && is_a_socket(at[i].fd) ? enter(at[i].fd) : NULL;
		if (!s) {
			at[i].revents = real->revents;
			*real = (struct pollfd){.fd = at[i].fd, .events = at[i].events};
			real[1].fd = -1;
		} else {
			if (!s->is_awaited)
				drain(s);
			arm(s, real);
			at[i].revents = look(s) & (at[i].events | POLLERR | POLLHUP);
			leave(s, 1);
		}
		ready += at[i].revents != 0;
	}
	return ready;
}

EXPORT int rpoll(struct pollfd *at, nfds_t count, int timeout_ms)
{
	struct pollfd *real = calloc(2 * count + 1, sizeof *real);
	int64_t until = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;
	if (!real)
		return wrong(ENOMEM);
	for (int is_last = 0;;) {
		int ready = look_at_all(at, count, real);
		int64_t rest = until - now_ms(), nap = ready ? 0 : rest < 0 ? 0 : rest < NAP_MS ? rest : NAP_MS;
		/* Short, as another thread may take what this one sleeps for. */
		if (is_last || poll(real, 2 * count, (int)nap) < 0) {
			int error = errno;
			free(real);
			errno = error;
			return is_last ? ready : -1;
		}
		is_last = ready || rest <= 0;
	}
}

EXPORT int rselect(int count, fd_set *in, fd_set *out, fd_set *special, struct timeval *timeout)
{
	fd_set *sets[] = {in, out, special};
	static const short asked[] = {POLLIN, POLLOUT, POLLPRI}, told[] = {POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR, POLLPRI};
	struct pollfd at[FD_SETSIZE];
	int ready = 0;
	if (count < 0 || count > FD_SETSIZE)
		return wrong(EINVAL);
	for (int i = 0; i < count; i++) {
		at[i] = (struct pollfd){.fd = -1};
		for (int kind = 0; kind < 3; kind++)
			if (sets[kind] && FD_ISSET(i, sets[kind]))
				at[i].fd = i, at[i].events |= asked[kind];
	}
	int found = rpoll(at, (nfds_t)count, timeout ? (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000) : -1);
	if (found < 0)
		return -1;
	for (int i = 0; i < count; i++) {
		if (at[i].revents & POLLNVAL)
			return wrong(EBADF);
		for (int kind = 0; kind < 3; kind++) {
			if (!sets[kind] || !FD_ISSET(i, sets[kind]))
				continue;
			if (at[i].revents & told[kind])
				ready++;
			else
				FD_CLR(i, sets[kind]);
		}
	}
	return ready;
}

/* ---- Names and options ---- */

EXPORT int rgetsockname(int number, struct sockaddr *to, socklen_t *bytes)
{
	struct rsock *s = enter(number);
	if (!s)
		return -1;
	give_address(s, &s->id->route.addr.src_sin, to, bytes);
	leave(s, 1);
	return 0;
}

EXPORT int rgetpeername(int number, struct sockaddr *to, socklen_t *bytes)
{
	struct rsock *s = enter(number);
	if (!s)
		return -1;
	int is_there = s->state >= ACCEPTED;
	if (is_there)
		give_address(s, &s->id->route.addr.dst_sin, to, bytes);
	leave(s, 1);
	return wrong(is_there ? 0 : ENOTCONN);
}

static int option_of(int level, int name)
{
	for (int i = 0; i < OPTIONS; i++)
		if (options[i].level == level && options[i].name == name)
			return i;
	return -1;
}

EXPORT int rsetsockopt(int number, int level, int name, const void *from, socklen_t bytes)
{
	struct rsock *s = enter(number);
	if (!s)
		return -1;
	int which = option_of(level, name), error = 0, is_linger = level == SOL_SOCKET && name == SO_LINGER, value = 0;
	if (is_linger && bytes >= sizeof s->linger)
		memcpy(&s->linger, from, sizeof s->linger);
	else if (which >= 0 && bytes >= sizeof value)
		memcpy(&value, from, sizeof value);
	else if (!(level == SOL_RDMA && name == ROUTE)) /* there is one route */
		error = which < 0 && !is_linger ? ENOPROTOOPT : EINVAL;
	if (!error && (which == O_REUSE || which == O_V6ONLY) && rdma_set_option(s->id, 0, which == O_REUSE ? 1 : 2, &value, sizeof value))
		error = errno;
	if (!error && which >= 0)
		s->option[which] = value;
	leave(s, 1);
	return wrong(error);
}

EXPORT int rgetsockopt(int number, int level, int name, void *to, socklen_t *bytes)
{
	struct rsock *s = enter(number);
	if (!s)
		return -1;
	int which = option_of(level, name), error = 0, value = 0;
	const void *from = &value;
	socklen_t size = sizeof value;
	if (level == SOL_SOCKET && name == SO_LINGER)
		from = &s->linger, size = sizeof s->linger;
	else if (level == SOL_SOCKET && name == SO_ERROR)
		look_around(s), value = s->error, s->error = 0;
	else if (level == SOL_SOCKET && name == SO_TYPE)
		value = SOCK_STREAM;
	else if (which >= 0)
		value = s->option[which];
	else
		error = ENOPROTOOPT;
	if (!error && *bytes < size)
		error = EINVAL;
	if (!error) {
		memcpy(to, from, size);
		*bytes = size;
	}
	leave(s, 1);
	return wrong(error);
}

EXPORT int rfcntl(int number, int command, ...)
{
	va_list more;
	va_start(more, command);
	long value = va_arg(more, long);
	va_end(more);
	struct rsock *s = enter(number);
	if (!s)
		return -1;
	int answer = 0;
	if (command == F_GETFL)
		answer = O_RDWR | (s->is_nonblocking ? O_NONBLOCK : 0);
	else if (command == F_SETFL)
		s->is_nonblocking = (value & O_NONBLOCK) != 0;
	else if (command == F_GETFD || command == F_SETFD)
		answer = fcntl(number, command, value);
	else
		answer = wrong(EINVAL);
	leave(s, 1);
	return answer;
}
