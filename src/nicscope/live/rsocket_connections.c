/* How rsockets are made, connected and closed, and their options. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "rsockets.h"

static const struct { int level, name, usual; } options[OPTIONS] = {
	[O_SNDBUF] = {SOL_SOCKET, SO_SNDBUF, USUAL * SLOT}, [O_RCVBUF] = {SOL_SOCKET, SO_RCVBUF, USUAL * SLOT},
	[O_REUSE] = {SOL_SOCKET, SO_REUSEADDR, 0}, [O_V6ONLY] = {IPPROTO_IPV6, IPV6_V6ONLY, 0},
	[O_MAPS] = {SOL_RDMA, MAP_COUNT, 0},
	/* Kept, without effect: a dead process is told of at once, a message leaves as it is sent. */
	{SOL_SOCKET, SO_KEEPALIVE, 0}, {SOL_SOCKET, SO_OOBINLINE, 0}, {IPPROTO_TCP, TCP_NODELAY, 0},
	{IPPROTO_TCP, TCP_MAXSEG, PAYLOAD}, {IPPROTO_TCP, TCP_KEEPIDLE, 7200}, {IPPROTO_TCP, TCP_KEEPINTVL, 75},
	{IPPROTO_TCP, TCP_KEEPCNT, 9}, {SOL_RDMA, SQSIZE, USUAL}, {SOL_RDMA, RQSIZE, USUAL}, {SOL_RDMA, INLINE_BYTES, 0},
};

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
		rs_post_receive(s, slot);
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
	rs_drop_queues(s);
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
	struct rsock *s = rs_new(listener->domain);
	struct hello hello;
	if (s)
		memcpy(s->option, listener->option, sizeof s->option);
	if (!s || rdma_migrate_id(event->id, s->events)) {
		int error = errno;
		rdma_reject(event->id, NULL, 0);
		rdma_destroy_id(event->id);
		if (s)
			rs_destroy(s);
		errno = error;
		return NULL;
	}
	s->id = event->id;
	int is_one = rs_read_hello(s, &event->param.conn);
	int failed = !is_one || open_queues(s);
	struct rdma_conn_param param = parameters(s, &hello);
	int error = is_one ? errno : ECONNABORTED;
	if (failed)
		rdma_reject(s->id, NULL, 0);
	else if (rdma_accept(s->id, &param))
		failed = 1, error = ECONNABORTED;
	if (failed) {
		rs_destroy(s);
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

static int misfit(const struct sockaddr *at, socklen_t bytes)
{
	int is_6 = bytes >= sizeof *at && at->sa_family == AF_INET6;
	if (bytes < (is_6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)))
		return EINVAL;
	return is_6 || at->sa_family == AF_INET ? 0 : EAFNOSUPPORT;
}

EXPORT int rsocket(int domain, int type, int protocol)
{
	if (domain != AF_INET && domain != AF_INET6)
		return wrong(EAFNOSUPPORT);
	if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM)
		return wrong(EOPNOTSUPP);
	if (protocol && protocol != IPPROTO_TCP)
		return wrong(EPROTONOSUPPORT);
	struct rsock *s = rs_new(domain);
	if (!s)
		return -1;
	s->is_nonblocking = (type & SOCK_NONBLOCK) != 0;
	for (int i = 0; i < OPTIONS; i++)
		s->option[i] = options[i].usual;
	if (rdma_create_id(s->events, &s->id, s, RDMA_PS_TCP)) {
		int error = errno;
		s->id = NULL;
		rs_destroy(s);
		return wrong(error);
	}
	return rs_enlist(s);
}

EXPORT int rbind(int number, const struct sockaddr *at, socklen_t bytes)
{
	struct rsock *s = rs_enter(number);
	if (!s)
		return -1;
	int error = s->state != FRESH ? EINVAL : misfit(at, bytes);
	int failed = error ? wrong(error) : rdma_bind_addr(s->id, (struct sockaddr *)(uintptr_t)at);
	rs_leave(s, 1);
	return failed;
}

EXPORT int rlisten(int number, int backlog)
{
	struct rsock *s = rs_enter(number);
	if (!s)
		return -1;
	int failed = s->state > LISTENING ? wrong(EINVAL) : rdma_listen(s->id, backlog);
	s->state = failed ? s->state : LISTENING;
	rs_leave(s, 1);
	return failed;
}

EXPORT int raccept(int number, struct sockaddr *from, socklen_t *bytes)
{
	struct rsock *s = rs_enter(number), *made = NULL;
	struct rdma_cm_event *event;
	if (!s)
		return -1;
	int error = s->state == LISTENING ? 0 : EINVAL;
	while (!error && !made) {
		short at = rs_now_at(s->events->fd);
		if (at & POLLIN && !rdma_get_cm_event(s->events, &event)) {
			int is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
			made = is_request ? accepted(s, event) : NULL;
			error = is_request && !made && errno != ECONNABORTED ? errno : 0;
			rdma_ack_cm_event(event);
		} else if (at) {
			error = EIO;
		} else if (s->is_nonblocking || rs_await(s, -1)) {
			error = s->is_nonblocking ? EAGAIN : errno;
		}
	}
	if (made)
		give_address(made, &made->id->route.addr.dst_sin, from, bytes);
	rs_leave(s, 1);
	return made ? rs_enlist(made) : wrong(error);
}

EXPORT int rconnect(int number, const struct sockaddr *to, socklen_t bytes)
{
	static const int refusal[] = {[LISTENING] = EINVAL, [CONNECTING] = EALREADY, [ACCEPTED] = EISCONN, [UP] = EISCONN};
	struct rsock *s = rs_enter(number);
	if (!s)
		return -1;
	rs_look_around(s);
	int error = refusal[s->state];
	error = error ? error : misfit(to, bytes);
	if (!error && begin_to_connect(s, (struct sockaddr *)(uintptr_t)to))
		error = errno ? errno : EIO;
	while (!error && s->state == CONNECTING)
		error = s->is_nonblocking ? EINPROGRESS : rs_await(s, -1) ? errno : 0;
	if (!error && s->state == FRESH) {
		error = s->error;
		s->error = 0;
	}
	rs_leave(s, 1);
	return wrong(error);
}

EXPORT int rshutdown(int number, int how)
{
	struct rsock *s = rs_enter(number);
	if (!s)
		return -1;
	int error = how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR ? EINVAL : s->state < ACCEPTED ? ENOTCONN : 0;
	if (!error && how != SHUT_WR && !s->is_shut_in) {
		s->is_shut_in = 1;
		for (; s->first < s->last; s->owed++)
			rs_post_receive(s, s->queue[s->first++ % (MOST + SPARE)].slot);
	}
	if (!error) {
		s->is_shut_out |= how != SHUT_RD;
		rs_look_around(s);
		rs_wake(s);
	}
	rs_leave(s, 1);
	return wrong(error);
}

/* What was sent is with the peer when this ends, unless the peer has gone. */
EXPORT int rclose(int number)
{
	struct rsock *s = rs_enter(number);
	if (!s)
		return -1;
	if (!rs_strike(s, number)) {
		rs_leave(s, 1);
		return wrong(EBADF);
	}
	int64_t until = rs_now_ms() + (s->linger.l_onoff ? s->linger.l_linger * 1000 : PATIENCE_MS), now;
	s->is_closed = s->is_shut_in = s->is_shut_out = 1;
	rs_look_around(s);
	while (s->state >= ACCEPTED && !s->cannot_send && (!s->is_end_told || s->done < s->sent) && (now = rs_now_ms()) < until)
		rs_await(s, (int)(until - now));
	if (s->state >= CONNECTING)
		rdma_disconnect(s->id); /* and whoever still waits for it wakes */
	rs_leave(s, 2);
	return 0;
}

/* ---- Names and options ---- */

static int name_of(int number, int is_peers, struct sockaddr *to, socklen_t *bytes)
{
	struct rsock *s = rs_enter(number);
	if (!s)
		return -1;
	int is_there = !is_peers || s->state >= ACCEPTED;
	if (is_there)
		give_address(s, is_peers ? &s->id->route.addr.dst_sin : &s->id->route.addr.src_sin, to, bytes);
	rs_leave(s, 1);
	return wrong(is_there ? 0 : ENOTCONN);
}

EXPORT int rgetsockname(int number, struct sockaddr *to, socklen_t *bytes) { return name_of(number, 0, to, bytes); }
EXPORT int rgetpeername(int number, struct sockaddr *to, socklen_t *bytes) { return name_of(number, 1, to, bytes); }

static int option_of(int level, int name)
{
	for (int i = 0; i < OPTIONS; i++)
		if (options[i].level == level && options[i].name == name)
			return i;
	return -1;
}

EXPORT int rsetsockopt(int number, int level, int name, const void *from, socklen_t bytes)
{
	struct rsock *s = rs_enter(number);
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
	rs_leave(s, 1);
	return wrong(error);
}

EXPORT int rgetsockopt(int number, int level, int name, void *to, socklen_t *bytes)
{
	struct rsock *s = rs_enter(number);
	if (!s)
		return -1;
	int which = option_of(level, name), error = 0, value = 0;
	const void *from = &value;
	socklen_t size = sizeof value;
	if (level == SOL_SOCKET && name == SO_LINGER)
		from = &s->linger, size = sizeof s->linger;
	else if (level == SOL_SOCKET && name == SO_ERROR)
		rs_look_around(s), value = s->error, s->error = 0;
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
	rs_leave(s, 1);
	return wrong(error);
}

EXPORT int rfcntl(int number, int command, ...)
{
	va_list more;
	va_start(more, command);
	long value = va_arg(more, long);
	va_end(more);
	struct rsock *s = rs_enter(number);
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
	rs_leave(s, 1);
	return answer;
}
