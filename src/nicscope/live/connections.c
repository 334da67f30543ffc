/* The connection manager: ends find each other through the machine, which passes on what they say.
 * An event channel is a pipe whose other end the machine has, and the library itself for what it
 * knows at once. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm_abi.h"
#include "live.h"

/* Verbs that this library calls. */
struct ibv_context *ibv_open_device(struct ibv_device *);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *);
int ibv_modify_qp(struct ibv_qp *, struct ibv_qp_attr *, int);
int ibv_destroy_qp(struct ibv_qp *);
int ibv_destroy_srq(struct ibv_srq *);
int ibv_attach_mcast(struct ibv_qp *, const union ibv_gid *, uint16_t);
int ibv_detach_mcast(struct ibv_qp *, const union ibv_gid *, uint16_t);
int ibv_query_gid(struct ibv_context *, uint8_t, int, union ibv_gid *);
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *);
int ibv_destroy_comp_channel(struct ibv_comp_channel *);
struct ibv_cq *ibv_create_cq(struct ibv_context *, int, void *, struct ibv_comp_channel *, int);
int ibv_destroy_cq(struct ibv_cq *);

enum { QPT_RC = 2, QPT_UD = 4, QPT_XRC_RECV = 10 };
enum { PORT = 1, GID_INDEX = 1, MTU = 5, ACK_TIMEOUT = 18, MOST_PRIVATE = 8 * 32 };
enum { INIT = 1, RTR = 2, RTS = 3, ERR = 6, PATH = 3, ALL_ACCESS = 15 };

struct channel { struct rdma_event_channel base; uint64_t handle; };

struct end {
	struct rdma_cm_id id;
	uint64_t handle;
	uint32_t psn, peer_psn, peer_qpn, peer_node;
	uint32_t responder, initiator, retry, rnr;
	uint8_t timeout;
	int is_connected, is_synchronous, owns_cqs;
	unsigned shares; /* its port, with whom: LIVE_REUSED, LIVE_ONE_VERSION */
	struct ibv_qp_init_attr wanted; /* of a listening end that makes its ends' queue pairs */
	int has_wanted;
	unsigned events; /* not acknowledged */
	pthread_mutex_t lock;
	pthread_cond_t cond;
};

struct event { struct rdma_cm_event base; uint8_t private[MOST_PRIVATE]; };

static struct ibv_context *the_context;
static struct ibv_pd *the_domain;
static struct ibv_xrcd *the_xrc_domain;
static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;

static int wrong(int number)
{
	errno = number;
	return number ? -1 : 0;
}

static struct ibv_context *context(void)
{
	pthread_mutex_lock(&context_lock);
	if (!the_context) {
		struct ibv_device *device = live_device();
		the_context = device ? ibv_open_device(device) : NULL;
	}
	pthread_mutex_unlock(&context_lock);
	return the_context;
}

static struct verbs_context *verbs_of(struct ibv_context *verbs)
{
	return (struct verbs_context *)((uint8_t *)verbs - offsetof(struct verbs_context, context));
}

static struct end *end_of(struct rdma_cm_id *id) { return (struct end *)id; }

static int ask(struct end *end, uint64_t operation, struct live_question *q, struct live_answer *a)
{
	q->operation = operation;
	q->word[0] = end->handle;
	return live_ask_machine(q, a, -1);
}

/* ---- Channels and events ---- */

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel = calloc(1, sizeof *channel);
	struct live_question q = {LIVE_OP_CREATE_CHANNEL, {2}};
	struct live_answer a;
	int ends[2];
	if (!channel || !context() || pipe2(ends, O_CLOEXEC)) {
		free(channel);
		errno = ENODEV;
		return NULL;
	}
	int failed = live_ask_machine(&q, &a, ends[1]);
	close(ends[1]);
	if (failed) {
		close(ends[0]);
		free(channel);
		errno = failed;
		return NULL;
	}
	*channel = (struct channel){{ends[0]}, a.word[0]};
	return &channel->base;
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *base)
{
	struct channel *channel = (struct channel *)base;
	struct live_question q = {LIVE_OP_DESTROY_CHANNEL, {channel->handle}};
	struct live_answer a;
	live_ask_machine(&q, &a, -1);
	close(channel->base.fd);
	free(channel);
}

static int put_event(struct end *end, struct live_cm_event event)
{
	event.cookie = (uintptr_t)end;
	event.handle = end->handle;
	char path[64];
	/* Opened for this alone: readers are to see that the channel ends when the machine does. */
	snprintf(path, sizeof path, "/proc/self/fd/%d", end->id.channel->fd);
	int file = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t written = file < 0 ? -1 : write(file, &event, sizeof event);
	if (file >= 0)
		close(file);
	return written == (ssize_t)sizeof event ? 0 : -1;
}

static int announce(struct end *end, uint32_t type)
{
	return put_event(end, (struct live_cm_event){.type = type});
}

EXPORT const char *rdma_event_str(int event)
{
	static const char *const names[] = {"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR",
		"RDMA_CM_EVENT_ROUTE_RESOLVED", "RDMA_CM_EVENT_ROUTE_ERROR", "RDMA_CM_EVENT_CONNECT_REQUEST",
		"RDMA_CM_EVENT_CONNECT_RESPONSE", "RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE",
		"RDMA_CM_EVENT_REJECTED", "RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED",
		"RDMA_CM_EVENT_DEVICE_REMOVAL", "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR",
		"RDMA_CM_EVENT_ADDR_CHANGE", "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
	return event >= 0 && (size_t)event < sizeof names / sizeof *names ? names[event] : "UNKNOWN EVENT";
}

/* ---- Ends ---- */

static struct end *new_end(struct rdma_event_channel *channel, void *program, int ps)
{
	struct end *end = calloc(1, sizeof *end);
	if (!end)
		return NULL;
	end->id.channel = channel;
	end->id.context = program;
	end->id.ps = ps;
	end->id.qp_type = ps == RDMA_PS_UDP ? QPT_UD : QPT_RC;
	end->psn = (uint32_t)((uintptr_t)end >> 4) & 0xffffff;
	end->timeout = ACK_TIMEOUT;
	pthread_mutex_init(&end->lock, NULL);
	pthread_cond_init(&end->cond, NULL);
	return end;
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *program, int ps)
{
	if (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP && ps != RDMA_PS_IB)
		return wrong(EOPNOTSUPP);
	int is_synchronous = !channel;
	if (is_synchronous && !(channel = rdma_create_event_channel()))
		return -1;
	struct end *end = new_end(channel, program, ps);
	if (!end)
		return wrong(ENOMEM);
	end->is_synchronous = is_synchronous;
	struct live_question q = {LIVE_OP_CM_CREATE, {((struct channel *)channel)->handle, (uintptr_t)end, (uint64_t)ps}};
	struct live_answer a;
	int failed = live_ask_machine(&q, &a, -1);
	if (failed) {
		free(end);
		return wrong(failed);
	}
	end->handle = a.word[0];
	*id = &end->id;
	return 0;
}

static void destroy_cqs(struct rdma_cm_id *id)
{
	if (!end_of(id)->owns_cqs)
		return;
	ibv_destroy_cq(id->send_cq);
	ibv_destroy_cq(id->recv_cq);
	ibv_destroy_comp_channel(id->send_cq_channel);
	ibv_destroy_comp_channel(id->recv_cq_channel);
	id->send_cq = id->recv_cq = NULL;
	id->send_cq_channel = id->recv_cq_channel = NULL;
	end_of(id)->owns_cqs = 0;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (id->qp)
		ibv_destroy_qp(id->qp);
	id->qp = NULL;
	if (!id->srq)
		destroy_cqs(id);
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct end *end = end_of(event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->listen_id : event->id);
	pthread_mutex_lock(&end->lock);
	end->events--;
	pthread_cond_signal(&end->cond);
	pthread_mutex_unlock(&end->lock);
	free(event);
	return 0;
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct end *end = end_of(id);
	struct live_question q = {0};
	struct live_answer a;
	int failed = ask(end, LIVE_OP_CM_DESTROY, &q, &a);
	if (failed)
		return wrong(failed);
	if (id->event)
		rdma_ack_cm_event(id->event);
	id->event = NULL;
	pthread_mutex_lock(&end->lock);
	while (end->events)
		pthread_cond_wait(&end->cond, &end->lock);
	pthread_mutex_unlock(&end->lock);
	if (end->is_synchronous)
		rdma_destroy_event_channel(id->channel);
	free(end);
	return 0;
}

/* An address of version 4 in the host's order; 0: any. */
static uint32_t address_of(const struct sockaddr *from)
{
	static const uint8_t own[16] = {[15] = 1};
	if (!from)
		return 0;
	if (from->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)from)->sin_addr.s_addr);
	const uint8_t *bytes = ((const struct sockaddr_in6 *)from)->sin6_addr.s6_addr;
	if (!memcmp(bytes, own, 16))
		return INADDR_LOOPBACK;
	return (uint32_t)bytes[12] << 24 | (uint32_t)bytes[13] << 16 | (uint32_t)bytes[14] << 8 | bytes[15];
}

static uint16_t port_of(const struct sockaddr *from)
{
	return from ? ntohs(((const struct sockaddr_in *)from)->sin_port) : 0; /* alike in both versions */
}

static uint32_t node_address(uint32_t node) { return 10u << 24 | (node + 1); }

static void put_address(struct sockaddr_in *to, uint32_t address, uint16_t port)
{
	*to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(address)}};
}

/* What ends share whose programs bring none of their own; NULL, with errno, if there is no more. */
static struct ibv_pd *domain_of(struct rdma_cm_id *id)
{
	pthread_mutex_lock(&context_lock);
	if (!the_domain)
		the_domain = ibv_alloc_pd(id->verbs);
	pthread_mutex_unlock(&context_lock);
	return the_domain;
}

static int find_device(struct end *end)
{
	end->id.verbs = context();
	end->id.port_num = PORT;
	if (end->id.verbs)
		ibv_query_gid(end->id.verbs, PORT, GID_INDEX, &end->id.route.addr.addr.sgid);
	if (end->id.verbs && !end->id.pd)
		end->id.pd = domain_of(&end->id);
	return !end->id.verbs ? ENODEV : end->id.pd ? 0 : ENOMEM;
}

static int bind_port(struct end *end, const struct sockaddr *from)
{
	int is_6 = from && from->sa_family == AF_INET6;
	/* An address of version 4 stands for its version alone; one of 6, unless it is told so, for both. */
	unsigned shares = end->shares | (is_6 ? LIVE_VERSION_6 : LIVE_ONE_VERSION) | (address_of(from) ? 0 : LIVE_ANY_ADDRESS);
	struct live_question q = {.word = {[1] = port_of(from), [2] = shares}};
	struct live_answer a;
	int failed = ask(end, LIVE_OP_CM_BIND, &q, &a);
	if (!failed)
		put_address(&end->id.route.addr.src_sin, node_address((uint32_t)live_fact(LIVE_FACT_NODE)), (uint16_t)a.word[0]);
	return failed;
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *from)
{
	int failed = bind_port(end_of(id), from);
	if (!failed && address_of(from))
		failed = find_device(end_of(id));
	if (!failed && !address_of(from))
		id->route.addr.src_sin.sin_addr.s_addr = 0;
	return wrong(failed);
}

static int is_done(struct end *end, int type);

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms)
{
	struct end *end = end_of(id);
	struct sockaddr_in6 any = {.sin6_family = to->sa_family};
	(void)timeout_ms;
	int failed = find_device(end);
	if (!failed && !id->route.addr.src_sin.sin_port)
		failed = bind_port(end, from ? from : (struct sockaddr *)&any);
	if (failed)
		return wrong(failed);
	id->route.addr.src_sin.sin_addr.s_addr = htonl(node_address((uint32_t)live_fact(LIVE_FACT_NODE)));
	put_address(&id->route.addr.dst_sin, address_of(to), port_of(to));
	return announce(end, RDMA_CM_EVENT_ADDR_RESOLVED) ? -1 : is_done(end, RDMA_CM_EVENT_ADDR_RESOLVED);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	return announce(end_of(id), RDMA_CM_EVENT_ROUTE_RESOLVED) ? -1 : is_done(end_of(id), RDMA_CM_EVENT_ROUTE_RESOLVED);
}

EXPORT be16 rdma_get_src_port(struct rdma_cm_id *id) { return id->route.addr.src_sin.sin_port; }
EXPORT be16 rdma_get_dst_port(struct rdma_cm_id *id) { return id->route.addr.dst_sin.sin_port; }

/* ---- Queue pairs ---- */

static void set_path(struct ibv_ah_attr *to, uint32_t node)
{
	*to = (struct ibv_ah_attr){.grh = {.sgid_index = GID_INDEX, .hop_limit = 64}, .is_global = 1, .port_num = PORT};
	uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)(node + 1)};
	memcpy(to->grh.dgid.raw, mapped, sizeof mapped);
}

static void fill(struct end *end, struct ibv_qp_attr *attr, int *mask, int state)
{
	memset(attr, 0, sizeof *attr);
	attr->qp_state = state;
	*mask = 1;
	if (state == INIT) {
		attr->port_num = PORT;
		attr->qkey = RDMA_UDP_QKEY;
		attr->qp_access_flags = ALL_ACCESS;
		*mask |= 1 << 4 | 1 << 5 | (end->id.qp_type == QPT_UD ? 1 << 6 : 1 << 3);
	} else if (state == RTR && end->id.qp_type != QPT_UD) {
		set_path(&attr->ah_attr, end->peer_node);
		attr->path_mtu = MTU;
		attr->dest_qp_num = end->peer_qpn;
		attr->rq_psn = end->peer_psn;
		attr->max_dest_rd_atomic = (uint8_t)end->responder;
		*mask |= 1 << 7 | 1 << 8 | 1 << 20 | 1 << 12 | 1 << 17 | 1 << 15;
	} else if (state == RTS) {
		attr->sq_psn = end->psn;
		attr->timeout = end->timeout;
		attr->retry_cnt = (uint8_t)end->retry;
		attr->rnr_retry = (uint8_t)end->rnr;
		attr->max_rd_atomic = (uint8_t)end->initiator;
		*mask |= 1 << 16;
		if (end->id.qp_type != QPT_UD)
			*mask |= 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13;
	}
}

static int move_to(struct end *end, int state)
{
	struct ibv_qp_attr attr;
	int mask;
	fill(end, &attr, &mask, state);
	return end->id.qp ? ibv_modify_qp(end->id.qp, &attr, mask) : 0;
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	fill(end_of(id), attr, mask, attr->qp_state);
	return 0;
}

static int create_cqs(struct rdma_cm_id *id, struct ibv_qp_init_attr *attr)
{
	id->send_cq_channel = ibv_create_comp_channel(id->verbs);
	id->recv_cq_channel = ibv_create_comp_channel(id->verbs);
	if (!id->send_cq_channel || !id->recv_cq_channel)
		return ENOMEM;
	id->send_cq = ibv_create_cq(id->verbs, (int)attr->cap.max_send_wr + 1, id, id->send_cq_channel, 0);
	id->recv_cq = ibv_create_cq(id->verbs, (int)attr->cap.max_recv_wr + 1, id, id->recv_cq_channel, 0);
	end_of(id)->owns_cqs = 1;
	return id->send_cq && id->recv_cq ? 0 : ENOMEM;
}

static struct ibv_xrcd *xrc_domain_of(struct rdma_cm_id *id)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = 3, .fd = -1, .oflags = O_CREAT};
	pthread_mutex_lock(&context_lock);
	if (!the_xrc_domain)
		the_xrc_domain = verbs_of(id->verbs)->open_xrcd(id->verbs, &attr);
	pthread_mutex_unlock(&context_lock);
	return the_xrc_domain;
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	enum { TYPE = 1, PD = 2, XRCD = 4, CQ = 8, XRC = 1 };
	struct ibv_qp_init_attr depths = {.cap = {.max_recv_wr = attr->attr.max_wr}};
	int is_xrc = attr->comp_mask & TYPE && attr->srq_type == XRC;
	if (!id->verbs || id->srq)
		return wrong(EINVAL);
	if (!(attr->comp_mask & PD) && !(attr->pd = id->pd))
		return -1;
	attr->comp_mask |= PD;
	if (is_xrc && !(attr->comp_mask & XRCD) && !(attr->xrcd = xrc_domain_of(id)))
		return -1;
	if (is_xrc && !(attr->comp_mask & CQ)) {
		int failed = create_cqs(id, &depths);
		if (failed)
			return wrong(failed);
		attr->cq = id->recv_cq;
	}
	attr->comp_mask |= is_xrc ? XRCD | CQ : 0;
	struct ibv_srq *srq = verbs_of(id->verbs)->create_srq_ex(id->verbs, attr);
	if (!srq)
		return -1;
	id->srq = srq;
	return 0;
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex wide = {.srq_context = attr->srq_context, .attr = attr->attr,
		.comp_mask = pd ? 3 : 1, .srq_type = id->qp_type == QPT_XRC_RECV, .pd = pd};
	int failed = rdma_create_srq_ex(id, &wide);
	attr->attr = wide.attr;
	return failed;
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (id->srq)
		ibv_destroy_srq(id->srq);
	id->srq = NULL;
	if (!id->qp)
		destroy_cqs(id);
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	enum { PD = 1, XRCD = 2 };
	struct ibv_qp_init_attr_ex wanted = *attr;
	struct ibv_qp_init_attr depths = {.cap = attr->cap};
	int takes = attr->qp_type == QPT_XRC_RECV;
	if (!id->verbs || id->qp)
		return wrong(EINVAL);
	if (!takes && !(attr->comp_mask & PD)) {
		wanted.pd = id->pd;
		wanted.comp_mask |= PD;
	}
	if (takes && !(attr->comp_mask & XRCD)) {
		wanted.xrcd = xrc_domain_of(id);
		wanted.comp_mask |= XRCD;
	}
	if ((!takes && !wanted.pd) || (takes && !wanted.xrcd))
		return -1;
	if (!wanted.srq && !takes)
		wanted.srq = id->srq;
	if (!takes && !wanted.send_cq && !wanted.recv_cq) {
		int failed = id->recv_cq ? 0 : create_cqs(id, &depths);
		if (failed)
			return wrong(failed);
		wanted.send_cq = id->send_cq;
		wanted.recv_cq = id->recv_cq;
	}
	struct ibv_qp *qp = verbs_of(id->verbs)->create_qp_ex(id->verbs, &wanted);
	if (!qp)
		return -1;
	id->qp = qp;
	id->pd = wanted.pd ? wanted.pd : id->pd;
	id->qp_type = attr->qp_type;
	attr->cap = wanted.cap;
	int failed = move_to(end_of(id), INIT);
	if (!failed && id->qp_type == QPT_UD) {
		failed = move_to(end_of(id), RTR);
		failed = failed ? failed : move_to(end_of(id), RTS);
	}
	if (failed)
		rdma_destroy_qp(id);
	return wrong(failed);
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex wide = {.qp_context = attr->qp_context, .send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq, .srq = attr->srq, .cap = attr->cap, .qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all, .comp_mask = pd != NULL, .pd = pd};
	int failed = rdma_create_qp_ex(id, &wide);
	attr->cap = wide.cap;
	return failed;
}

/* ---- Connections ---- */

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	struct live_question q = {.word = {[1] = (uint64_t)backlog}};
	struct live_answer a;
	if (!id->route.addr.src_sin.sin_port) {
		int failed = bind_port(end_of(id), NULL);
		if (failed)
			return wrong(failed);
	}
	return wrong(ask(end_of(id), LIVE_OP_CM_LISTEN, &q, &a));
}

/* What this end tells the other, behind three words of the question. */
static int tell(struct end *end, struct live_question *q, const struct rdma_conn_param *param)
{
	uint64_t *to = &q->word[3];
	to[LIVE_PARAM_QP_NUM] = end->id.qp ? end->id.qp->qp_num : param ? param->qp_num : 0;
	to[LIVE_PARAM_PSN] = end->psn;
	to[LIVE_PARAM_QKEY] = RDMA_UDP_QKEY;
	if (!param)
		return 0;
	to[LIVE_PARAM_RESPONDER] = param->responder_resources;
	to[LIVE_PARAM_INITIATOR] = param->initiator_depth;
	to[LIVE_PARAM_RETRY] = param->retry_count;
	to[LIVE_PARAM_RNR] = param->rnr_retry_count;
	to[LIVE_PARAM_FLOW] = param->flow_control;
	to[LIVE_PARAM_SRQ] = param->srq;
	to[LIVE_PARAM_PRIVATE_BYTES] = param->private_data_len;
	if (param->private_data_len)
		memcpy(&to[LIVE_PARAM_COUNT], param->private_data, param->private_data_len);
	return 0;
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	static const struct rdma_conn_param usual = {.responder_resources = 16, .initiator_depth = 16, .retry_count = 7,
		.rnr_retry_count = 7};
	struct end *end = end_of(id);
	struct live_question q = {.word = {[1] = ntohl(id->route.addr.dst_sin.sin_addr.s_addr),
		[2] = ntohs(id->route.addr.dst_sin.sin_port)}};
	struct live_answer a;
	param = param ? param : (struct rdma_conn_param *)&usual;
	end->initiator = param->initiator_depth > 16 ? 16 : param->initiator_depth;
	end->responder = param->responder_resources > 16 ? 16 : param->responder_resources;
	end->retry = param->retry_count & 7;
	end->rnr = param->rnr_retry_count & 7;
	tell(end, &q, param);
	int failed = ask(end, LIVE_OP_CM_CONNECT, &q, &a);
	return failed ? wrong(failed) : is_done(end, RDMA_CM_EVENT_ESTABLISHED);
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct end *end = end_of(id);
	struct live_question q = {0};
	struct live_answer a;
	int failed = 0;
	if (param) {
		end->initiator = param->initiator_depth > 16 ? 16 : param->initiator_depth;
		end->responder = param->responder_resources > 16 ? 16 : param->responder_resources;
		end->rnr = param->rnr_retry_count & 7;
	}
	if (id->qp && id->qp_type != QPT_UD) {
		failed = move_to(end, RTR);
		failed = failed ? failed : move_to(end, RTS);
	}
	tell(end, &q, param);
	failed = failed ? failed : ask(end, LIVE_OP_CM_ACCEPT, &q, &a);
	if (failed || id->qp_type == QPT_UD)
		return wrong(failed);
	return is_done(end, RDMA_CM_EVENT_ESTABLISHED);
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private, uint8_t bytes)
{
	struct rdma_conn_param param = {.private_data = private, .private_data_len = bytes};
	struct live_question q = {0};
	struct live_answer a;
	tell(end_of(id), &q, &param);
	return wrong(ask(end_of(id), LIVE_OP_CM_REJECT, &q, &a));
}

EXPORT int rdma_establish(struct rdma_cm_id *id)
{
	struct live_question q = {0};
	struct live_answer a;
	return wrong(ask(end_of(id), LIVE_OP_CM_ESTABLISH, &q, &a));
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	struct live_question q = {0};
	struct live_answer a;
	if (id->qp && id->qp_type != QPT_UD) {
		int failed = move_to(end_of(id), ERR);
		if (failed)
			return wrong(failed);
	}
	int failed = ask(end_of(id), LIVE_OP_CM_DISCONNECT, &q, &a);
	return failed ? wrong(failed) : is_done(end_of(id), RDMA_CM_EVENT_DISCONNECTED);
}

/* The end that a request makes here. */
static struct end *accepted_end(struct end *listener, const struct live_cm_event *from)
{
	struct end *end = new_end(listener->id.channel, listener->id.context, listener->id.ps);
	struct live_question q = {0};
	struct live_answer a;
	if (!end)
		return NULL;
	end->id.qp_type = listener->id.qp_type;
	end->timeout = listener->timeout;
	end->handle = from->handle;
	end->peer_psn = from->psn;
	end->peer_qpn = from->qp_num;
	end->peer_node = from->node;
	end->retry = from->retry & 7;
	end->rnr = from->rnr & 7;
	find_device(end);
	put_address(&end->id.route.addr.src_sin, node_address((uint32_t)live_fact(LIVE_FACT_NODE)), (uint16_t)from->own_port);
	put_address(&end->id.route.addr.dst_sin, from->address, (uint16_t)from->port);
	q.word[1] = (uintptr_t)end;
	ask(end, LIVE_OP_CM_OWN, &q, &a);
	return end;
}

static void tell_parameters(struct event *event, const struct live_cm_event *from, int is_datagram)
{
	uint32_t bytes = from->private_bytes < MOST_PRIVATE ? from->private_bytes : MOST_PRIVATE;
	memcpy(event->private, &from->private0, bytes);
	if (is_datagram) {
		struct rdma_ud_param *ud = &event->base.param.ud;
		*ud = (struct rdma_ud_param){.private_data = bytes ? event->private : NULL, .private_data_len = (uint8_t)bytes,
			.qp_num = from->qp_num, .qkey = from->qkey};
		set_path(&ud->ah_attr, from->node);
		return;
	}
	event->base.param.conn = (struct rdma_conn_param){.private_data = bytes ? event->private : NULL,
		.private_data_len = (uint8_t)bytes, .responder_resources = (uint8_t)from->initiator,
		.initiator_depth = (uint8_t)from->responder, .flow_control = (uint8_t)from->flow,
		.retry_count = (uint8_t)from->retry, .rnr_retry_count = (uint8_t)from->rnr, .srq = (uint8_t)from->srq,
		.qp_num = from->qp_num};
}

/* The peer has accepted: this end's queue pair goes on, and the peer hears that it may. */
static void respond(struct end *end, struct rdma_cm_event *event, const struct live_cm_event *from)
{
	end->peer_psn = from->psn;
	end->peer_qpn = from->qp_num;
	end->peer_node = from->node;
	end->rnr = from->rnr & 7 ? from->rnr & 7 : end->rnr;
	if (end->id.qp_type == QPT_UD) {
		event->event = RDMA_CM_EVENT_ESTABLISHED;
		return;
	}
	if (!end->id.qp)
		return;
	int failed = move_to(end, RTR);
	failed = failed ? failed : move_to(end, RTS);
	failed = failed ? failed : rdma_establish(&end->id);
	event->event = failed ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
	event->status = -failed;
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **found)
{
	struct live_cm_event from;
	ssize_t got = read(channel->fd, &from, sizeof from);
	if (got < 0)
		return -1;
	if (got != (ssize_t)sizeof from) {
		live_await_end(); /* another thread may have destroyed the channel: nothing comes any more */
		return wrong(EIO);
	}
	struct event *event = calloc(1, sizeof *event);
	struct end *end = (struct end *)(uintptr_t)from.cookie;
	if (!event)
		return wrong(ENOMEM);
	event->base = (struct rdma_cm_event){.id = &end->id, .event = (int)from.type, .status = (int)from.status};
	tell_parameters(event, &from, end->id.qp_type == QPT_UD && from.type != RDMA_CM_EVENT_CONNECT_REQUEST);
	if (from.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		struct end *accepted = accepted_end(end, &from);
		if (!accepted) {
			free(event);
			return wrong(ENOMEM);
		}
		event->base.listen_id = &end->id;
		event->base.id = &accepted->id;
	} else if (from.type == RDMA_CM_EVENT_MULTICAST_JOIN) {
		memcpy(event->base.param.ud.ah_attr.grh.dgid.raw, &from.private0, 16);
		event->base.param.ud.private_data = (const void *)(uintptr_t)from.private2;
	} else if (from.type == RDMA_CM_EVENT_CONNECT_RESPONSE) {
		respond(end, &event->base, &from);
	} else if (from.type == RDMA_CM_EVENT_DISCONNECTED && end->id.qp && end->id.qp_type != QPT_UD) {
		move_to(end, ERR);
	}
	pthread_mutex_lock(&end->lock);
	end->events++;
	pthread_mutex_unlock(&end->lock);
	*found = &event->base;
	return 0;
}

/* Of an end without a channel of the program's: wait until what was begun has ended. */
static int is_done(struct end *end, int type)
{
	if (!end->is_synchronous)
		return 0;
	if (end->id.event)
		rdma_ack_cm_event(end->id.event);
	end->id.event = NULL;
	if (rdma_get_cm_event(end->id.channel, &end->id.event))
		return -1;
	struct rdma_cm_event *event = end->id.event;
	if (event->event == type)
		return 0;
	return wrong(event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : EIO);
}

/* Without a channel an end gets one of its own, and waits for what it begins. */
EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct end *end = end_of(id);
	struct rdma_event_channel *before = end->is_synchronous ? id->channel : NULL;
	int is_synchronous = !channel;
	if (is_synchronous && !(channel = rdma_create_event_channel()))
		return -1;
	struct live_question q = {.word = {[1] = ((struct channel *)channel)->handle}};
	struct live_answer a;
	int failed = ask(end, LIVE_OP_CM_MOVE, &q, &a);
	if (failed) {
		if (is_synchronous)
			rdma_destroy_event_channel(channel);
		return wrong(failed);
	}
	if (id->event)
		rdma_ack_cm_event(id->event);
	id->event = NULL;
	if (before)
		rdma_destroy_event_channel(before);
	id->channel = channel;
	end->is_synchronous = is_synchronous;
	return 0;
}

EXPORT int rdma_get_request(struct rdma_cm_id *listener, struct rdma_cm_id **id)
{
	struct end *end = end_of(listener), *made;
	struct rdma_cm_event *event;
	if (!end->is_synchronous || rdma_get_cm_event(listener->channel, &event))
		return end->is_synchronous ? -1 : wrong(EINVAL);
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		rdma_ack_cm_event(event);
		return wrong(EINVAL);
	}
	made = end_of(event->id);
	int failed = rdma_migrate_id(&made->id, NULL);
	if (!failed && end->has_wanted)
		failed = rdma_create_qp(&made->id, listener->pd, &end->wanted);
	rdma_ack_cm_event(event);
	*id = &made->id;
	return failed;
}

EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *from, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *attr)
{
	if (rdma_create_id(NULL, id, NULL, from->ai_port_space))
		return -1;
	int failed;
	(*id)->qp_type = from->ai_qp_type;
	if (attr)
		attr->qp_type = from->ai_qp_type;
	if (from->ai_flags & RAI_PASSIVE) {
		failed = rdma_bind_addr(*id, from->ai_src_addr);
		if (!failed && attr) {
			end_of(*id)->wanted = *attr;
			end_of(*id)->has_wanted = 1;
			(*id)->pd = pd;
		}
	} else {
		failed = rdma_resolve_addr(*id, from->ai_src_addr, from->ai_dst_addr, 2000);
		failed = failed ? failed : rdma_resolve_route(*id, 2000);
		failed = failed || !attr ? failed : rdma_create_qp(*id, pd, attr);
	}
	if (failed)
		rdma_destroy_id(*id);
	return failed;
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* ---- Multicast: an address is a group's, whose member the end's queue pair becomes ---- */

static void group_of(union ibv_gid *gid, const struct sockaddr *at)
{
	memset(gid, 0, sizeof *gid);
	if (at->sa_family == AF_INET6) {
		memcpy(gid->raw, &((const struct sockaddr_in6 *)at)->sin6_addr, sizeof gid->raw);
		return;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, &((const struct sockaddr_in *)at)->sin_addr, 4);
}

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *at, void *program)
{
	struct live_cm_event event = {.type = RDMA_CM_EVENT_MULTICAST_JOIN, .qp_num = 0xffffff, .qkey = RDMA_UDP_QKEY};
	union ibv_gid gid;
	group_of(&gid, at);
	int failed = id->qp ? ibv_attach_mcast(id->qp, &gid, 0) : 0;
	if (failed)
		return wrong(failed);
	memcpy(&event.private0, gid.raw, sizeof gid.raw);
	event.private2 = (uintptr_t)program;
	if (put_event(end_of(id), event))
		return -1;
	return is_done(end_of(id), RDMA_CM_EVENT_MULTICAST_JOIN);
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *program)
{
	if (!(attr->comp_mask & 1) || attr->comp_mask & ~3u)
		return wrong(EINVAL);
	return rdma_join_multicast(id, attr->addr, program);
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *at)
{
	union ibv_gid gid;
	group_of(&gid, at);
	return wrong(id->qp ? ibv_detach_mcast(id->qp, &gid, 0) : 0);
}

/* ---- Addresses and options ---- */

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *from)
{
	while (from) {
		struct rdma_addrinfo *next = from->ai_next;
		free(from->ai_src_addr);
		free(from->ai_dst_addr);
		free(from);
		from = next;
	}
}

/* A copy of an address, if there is one; 0 if there is no room for it. */
static int copy_address(struct sockaddr **to, socklen_t *bytes, const struct sockaddr *from, socklen_t most)
{
	if (!from || !most)
		return 1;
	*to = malloc(most);
	if (!*to)
		return 0;
	memcpy(*to, from, most);
	*bytes = most;
	return 1;
}

EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
			    struct rdma_addrinfo **found)
{
	static const struct rdma_addrinfo none;
	hints = hints ? hints : &none;
	int flags = hints->ai_flags, is_passive = flags & RAI_PASSIVE;
	struct addrinfo wanted = {.ai_family = flags & RAI_FAMILY ? hints->ai_family : node ? AF_UNSPEC : AF_INET,
		.ai_socktype = SOCK_STREAM, .ai_flags = (is_passive ? AI_PASSIVE : 0) |
		(flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0)}, *list = NULL;
	int failed = node || service ? getaddrinfo(node, service, &wanted, &list) : 0;
	if (failed) {
		errno = failed == EAI_SYSTEM ? errno : EADDRNOTAVAIL;
		return failed;
	}
	struct rdma_addrinfo *made = calloc(1, sizeof *made);
	if (!made) {
		freeaddrinfo(list);
		return wrong(ENOMEM);
	}
	const struct sockaddr *given = list ? list->ai_addr : NULL, *source = hints->ai_src_addr, *other = hints->ai_dst_addr;
	socklen_t bytes = list ? list->ai_addrlen : 0, source_bytes = hints->ai_src_len, other_bytes = hints->ai_dst_len;
	if (given && is_passive)
		source = given, source_bytes = bytes;
	else if (given)
		other = given, other_bytes = bytes;
	made->ai_flags = flags;
	made->ai_family = list ? list->ai_family : hints->ai_family;
	made->ai_port_space = hints->ai_port_space ? hints->ai_port_space : RDMA_PS_TCP;
	made->ai_qp_type = hints->ai_qp_type ? hints->ai_qp_type : made->ai_port_space == RDMA_PS_UDP ? QPT_UD : QPT_RC;
	int is_made = copy_address(&made->ai_src_addr, &made->ai_src_len, source, source_bytes) &&
		      copy_address(&made->ai_dst_addr, &made->ai_dst_len, other, other_bytes);
	if (list)
		freeaddrinfo(list);
	if (!is_made) {
		rdma_freeaddrinfo(made);
		return wrong(ENOMEM);
	}
	*found = made;
	return 0;
}

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length)
{
	enum { OF_ID = 0, SERVICE_OF_ID = 0, REUSE_OF_ID, ONE_VERSION_OF_ID, ACK_TIMEOUT_OF_ID, MOST_TIMEOUT = 31 };
	if (level != OF_ID || name > ACK_TIMEOUT_OF_ID)
		return wrong(EOPNOTSUPP);
	if (name == SERVICE_OF_ID)
		return 0; /* a hint */
	if (name != ACK_TIMEOUT_OF_ID) {
		unsigned bit = name == REUSE_OF_ID ? LIVE_REUSED : LIVE_ONE_VERSION;
		if (length != sizeof(int))
			return wrong(EINVAL);
		end_of(id)->shares = (end_of(id)->shares & ~bit) | (*(int *)value ? bit : 0);
		return 0;
	}
	if (length != 1 || *(uint8_t *)value > MOST_TIMEOUT)
		return wrong(EINVAL);
	end_of(id)->timeout = *(uint8_t *)value;
	return 0;
}

EXPORT struct ibv_context **rdma_get_devices(int *count)
{
	struct ibv_context **list = calloc(2, sizeof *list);
	if (list)
		list[0] = context();
	if (count)
		*count = list && list[0];
	return list;
}

EXPORT void rdma_free_devices(struct ibv_context **list) { free(list); }

#define FAILING(name) EXPORT long name(void); EXPORT long name(void) { errno = EOPNOTSUPP; return -1; }
#include "cm_unsupported.h"
