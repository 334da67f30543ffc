/* A libibverbs of one card that is its own peer and has no data path: whatever is sent ends at once,
 * and ends the oldest receive.  What recording costs and loses is told apart from what a card does. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

enum { SLOTS = 1 << 12, SIGNALED = 2, WC_RECEIVED = 128 };
struct queue { struct ibv_cq_ex ex; unsigned head, tail; struct ibv_wc held[SLOTS]; };
struct pair {
	struct ibv_qp_ex ex;
	unsigned head, tail;
	struct { uint64_t wr_id; uint64_t bytes; } receives[SLOTS];
	struct ibv_wc built[64];
	int count;
};

static struct ibv_device card = {.node_type = 1, .name = "stub0", .dev_name = "stub0"};
static uint32_t keys = 1, numbers = 0x100;

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof *list);
	list[0] = &card;
	if (count)
		*count = 1;
	return list;
}
void ibv_free_device_list(struct ibv_device **list) { free(list); }

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	(void)context, (void)port;
	memset(gid, 0, sizeof *gid);
	gid->raw[15] = 9;
	return index ? -1 : 0;
}

static void end(struct queue *cq, struct ibv_wc wc) { cq->held[cq->tail++ % SLOTS] = wc; }

static void arrive(struct pair *qp, uint32_t bytes)
{
	if (qp->head == qp->tail)
		return;
	end((struct queue *)qp->ex.qp_base.recv_cq, (struct ibv_wc){.wr_id = qp->receives[qp->head++ % SLOTS].wr_id,
		.opcode = WC_RECEIVED, .byte_len = bytes, .qp_num = qp->ex.qp_base.qp_num});
}

static int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct pair *qp = (struct pair *)base;
	for (; wr; wr = wr->next) {
		uint32_t bytes = 0;
		if (wr->num_sge > 4) {
			*bad = wr;
			return EINVAL;
		}
		for (int i = 0; i < wr->num_sge; i++)
			bytes += wr->sg_list[i].length;
		if (wr->send_flags & SIGNALED)
			end((struct queue *)base->send_cq, (struct ibv_wc){.wr_id = wr->wr_id, .qp_num = base->qp_num,
				.status = wr->wr_id == 0xbad ? 10 : 0});
		if (wr->opcode == 2)
			arrive(qp, bytes);
	}
	return 0;
}

static int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct pair *qp = (struct pair *)base;
	(void)bad;
	for (; wr; wr = wr->next)
		qp->receives[qp->tail++ % SLOTS].wr_id = wr->wr_id;
	return 0;
}

static int poll_cq(struct ibv_cq *base, int most, struct ibv_wc *wc)
{
	struct queue *cq = (struct queue *)base;
	int found = 0;
	while (found < most && cq->head != cq->tail)
		wc[found++] = cq->held[cq->head++ % SLOTS];
	return found;
}

static int look(struct ibv_cq_ex *ex)
{
	struct queue *cq = (struct queue *)ex;
	if (cq->head == cq->tail)
		return ENOENT;
	const struct ibv_wc *wc = &cq->held[cq->head++ % SLOTS];
	ex->wr_id = wc->wr_id;
	ex->status = wc->status;
	return 0;
}
static const struct ibv_wc *at(struct ibv_cq_ex *ex) { struct queue *cq = (struct queue *)ex; return &cq->held[(cq->head - 1) % SLOTS]; }
static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr) { (void)attr; return look(ex); }
static void end_poll(struct ibv_cq_ex *ex) { (void)ex; }
static int read_opcode(struct ibv_cq_ex *ex) { return at(ex)->opcode; }
static uint32_t read_byte_len(struct ibv_cq_ex *ex) { return at(ex)->byte_len; }
static uint32_t read_qp_num(struct ibv_cq_ex *ex) { return at(ex)->qp_num; }

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct queue *cq = calloc(1, sizeof *cq);
	cq->ex.base.context = context;
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = look;
	cq->ex.end_poll = end_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_byte_len = attr->wc_flags & 1 ? read_byte_len : NULL;
	cq->ex.read_qp_num = attr->wc_flags & 4 ? read_qp_num : NULL;
	return &cq->ex;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *own, void *channel, int vector)
{
	struct ibv_cq_init_attr_ex attr = {0};
	(void)cqe, (void)own, (void)channel, (void)vector;
	return &create_cq_ex(context, &attr)->base;
}

static void wr_start(struct ibv_qp_ex *ex) { ((struct pair *)ex)->count = 0; }
static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote)
{
	struct pair *qp = (struct pair *)ex;
	(void)rkey, (void)remote;
	qp->built[qp->count++ % 64] = (struct ibv_wc){.wr_id = ex->wr_id, .qp_num = ex->qp_base.qp_num, .opcode = 1};
}
static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t address, uint32_t length)
{
	(void)ex, (void)lkey, (void)address, (void)length;
}
static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *pieces)
{
	(void)ex, (void)count, (void)pieces;
}
static int wr_complete(struct ibv_qp_ex *ex)
{
	struct pair *qp = (struct pair *)ex;
	for (int i = 0; i < qp->count && i < 64; i++)
		end((struct queue *)ex->qp_base.send_cq, qp->built[i]);
	return 0;
}
static void wr_abort(struct ibv_qp_ex *ex) { (void)ex; }

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct pair *qp = calloc(1, sizeof *qp);
	qp->ex = (struct ibv_qp_ex){.qp_base = {.context = context, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq,
		.qp_num = numbers++, .qp_type = attr->qp_type}, .wr_start = wr_start, .wr_rdma_write = wr_rdma_write,
		.wr_set_sge = wr_set_sge, .wr_set_sge_list = wr_set_sge_list, .wr_complete = wr_complete,
		.wr_abort = wr_abort};
	return &qp->ex.qp_base;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp) { return (struct ibv_qp_ex *)qp; }

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct verbs_context *made = calloc(1, sizeof *made);
	made->sz = sizeof *made;
	made->create_cq_ex = create_cq_ex;
	made->create_qp_ex = create_qp_ex;
	made->context = (struct ibv_context){.device = device, .abi_compat = IBV_EXTENDED,
		.ops = {.poll_cq = poll_cq, .post_send = post_send, .post_recv = post_recv}};
	return &made->context;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof *pd);
	pd->context = context;
	return pd;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	struct ibv_mr *mr = calloc(1, sizeof *mr);
	(void)iova, (void)access;
	*mr = (struct ibv_mr){pd->context, pd, addr, length, 0, keys << 8, keys << 8};
	keys++;
	return mr;
}
/* As some libraries have it: by the exported call, in whose way a preloaded one stands. */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}
int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex more = {.send_cq = attr->send_cq, .recv_cq = attr->recv_cq, .qp_type = attr->qp_type};
	return create_qp_ex(pd->context, &more);
}
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp, (void)attr, (void)mask;
	return 0;
}
int ibv_destroy_qp(struct ibv_qp *qp)
{
	free(qp);
	return 0;
}
