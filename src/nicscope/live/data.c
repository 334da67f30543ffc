/* Posting and polling: what a message costs its program.  No system call, but for a bell that wakes
 * the machine and for giving the processor to it where there is none to spare. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "live.h"

enum { QPS_RTS = 3, QPS_INIT = 1, WR_SEND_WITH_INV = 9, WR_LOCAL_INV = 7, QPT_UD = 4 };
enum { WR_CMP_SWP = 5, WR_FETCH_ADD = 6, WR_BIND_MW = 8, WR_ATOMIC_WRITE = 15, WR_ATOMIC_WRITE_HERE = 15 };
enum { SIGNALED = 2, INLINE = LIVE_INLINE_BIT, KNOWN_FLAGS = 1 | 2 | 4 | 8 };
/* After how many empty polls the program looks whether the machine is there: often where some of them
 * give up the processor, which costs as much as several polls, and may cost two switches.
 * Measured by ib_send_lat on two processors: of 1, 4, 8, 16, 32, 64 and 128 polls 8 and 16 were best. */
enum { LOOK_EVERY = 1 << 12, LOOK_OFTEN = 1 << 8, YIELD_EVERY = 1 << 3 };

void live_ring_bell(void)
{
	__atomic_fetch_add(&live_link.header->bell, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&live_link.header->asleep, __ATOMIC_SEQ_CST)) {
		uint64_t one = 1;
		ssize_t written = write(live_link.bell, &one, sizeof one);
		(void)written;
	}
}

static void *slot_of(struct live_queue *q, uint64_t place)
{
	return q->slots + (place & q->mask) * q->stride;
}

static void publish(struct live_queue *q)
{
	__atomic_store_n(&q->ring->tail, q->next, __ATOMIC_RELEASE);
}

/* The pieces of a request; what is wrong with it. */
static int put_pieces(struct live_piece *to, const struct ibv_sge *from, int count)
{
	for (int i = 0; i < count; i++)
		to[i] = (struct live_piece){from[i].addr, from[i].length, from[i].lkey};
	return 0;
}

static int is_atomic(int opcode)
{
	return opcode == WR_CMP_SWP || opcode == WR_FETCH_ADD;
}

static int put_send(struct live_qp *qp, struct ibv_send_wr *wr)
{
	struct live_send *to = slot_of(&qp->send, qp->send.next);
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge)
		return EINVAL;
	if (wr->send_flags & ~KNOWN_FLAGS || wr->opcode == WR_BIND_MW)
		return EOPNOTSUPP;
	*to = (struct live_send){.wr_id = wr->wr_id, .opcode = (uint32_t)wr->opcode,
		.send_flags = wr->send_flags, .imm = wr->imm_data, .pieces = (uint32_t)wr->num_sge,
		.srqn = wr->qp_type.xrc.remote_srqn};
	if (qp->signals_all)
		to->send_flags |= SIGNALED;
	if (qp->ex.qp_base.qp_type == QPT_UD) {
		struct live_ah *ah = (struct live_ah *)wr->wr.ud.ah;
		if (!ah)
			return EINVAL;
		memcpy(&to->dgid_high, ah->attr.grh.dgid.raw, 16);
		to->sgid_index = ah->attr.grh.sgid_index;
		to->qpn = wr->wr.ud.remote_qpn;
		to->qkey = wr->wr.ud.remote_qkey;
	} else if (is_atomic(wr->opcode)) {
		to->remote = wr->wr.atomic.remote_addr;
		to->rkey = wr->wr.atomic.rkey;
		to->compare = wr->wr.atomic.compare_add;
		to->swap = wr->wr.atomic.swap;
	} else {
		to->remote = wr->wr.rdma.remote_addr;
		to->rkey = wr->wr.rdma.rkey;
	}
	if (wr->send_flags & INLINE) {
		uint64_t length = 0;
		for (int i = 0; i < wr->num_sge; i++)
			length += wr->sg_list[i].length;
		if (length > qp->cap.max_inline_data)
			return EINVAL;
		uint8_t *at = (uint8_t *)(to + 1);
		for (int i = 0; i < wr->num_sge; i++) {
			memcpy(at, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
			at += wr->sg_list[i].length;
		}
		to->inlined = (uint32_t)length;
		return 0;
	}
	return put_pieces((struct live_piece *)(to + 1), wr->sg_list, wr->num_sge);
}

enum { STREAM = 256 }; /* requests after an empty poll: more than most programs post between two */
static uint64_t rests; /* of this process so far: polls that found nothing */

/* Programs that spin on memory never let others run: with few processors they do it here.  A program
 * that polls in vain lets others run then: within a stream of its requests each would cost two
 * switches, and the machine would take them one by one. */
static void let_run(struct live_qp *qp, uint64_t before)
{
	uint64_t now = __atomic_load_n(&rests, __ATOMIC_RELAXED);
	int is_alone = before == __atomic_load_n(&qp->sends_done, __ATOMIC_RELAXED);
	if (now != __atomic_exchange_n(&qp->rests, now, __ATOMIC_RELAXED))
		__atomic_store_n(&qp->stream_end, before + STREAM, __ATOMIC_RELAXED);
	int is_in_stream = before < __atomic_load_n(&qp->stream_end, __ATOMIC_RELAXED);
	if (live_link.header->yields && (is_alone || !is_in_stream))
		sched_yield();
}

int live_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct live_qp *qp = (struct live_qp *)base;
	int wrong = 0;
	pthread_spin_lock(&qp->send.lock);
	uint64_t before = qp->send.next;
	for (; wr; wr = wr->next) {
		if (base->state < QPS_RTS)
			wrong = EINVAL;
		else if (qp->send.next - __atomic_load_n(&qp->sends_done, __ATOMIC_RELAXED) >= qp->cap.max_send_wr)
			wrong = ENOMEM;
		else
			wrong = put_send(qp, wr);
		if (wrong)
			break;
		qp->send.next++;
	}
	int has_new = qp->send.next != before;
	if (has_new)
		publish(&qp->send);
	pthread_spin_unlock(&qp->send.lock);
	if (wrong)
		*bad = wr;
	if (has_new) {
		live_ring_bell();
		let_run(qp, before);
	}
	return wrong;
}

static int put_receives(struct live_queue *q, uint64_t *done, uint32_t most, uint32_t sges,
			struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int wrong = 0;
	pthread_spin_lock(&q->lock);
	uint64_t before = q->next;
	for (; wr; wr = wr->next) {
		if (wr->num_sge < 0 || (uint32_t)wr->num_sge > sges)
			wrong = EINVAL;
		else if (q->next - __atomic_load_n(done, __ATOMIC_RELAXED) -
				 __atomic_load_n(&q->ring->given_up, __ATOMIC_RELAXED) >= most)
			wrong = ENOMEM;
		if (wrong)
			break;
		struct live_receive *to = slot_of(q, q->next);
		*to = (struct live_receive){wr->wr_id, (uint32_t)wr->num_sge, 0};
		put_pieces((struct live_piece *)(to + 1), wr->sg_list, wr->num_sge);
		q->next++;
	}
	int has_new = q->next != before;
	if (has_new)
		publish(q);
	pthread_spin_unlock(&q->lock);
	if (wrong)
		*bad = wr;
	if (has_new)
		live_ring_bell();
	return wrong;
}

int live_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct live_qp *qp = (struct live_qp *)base;
	if (base->state < QPS_INIT || base->srq || !qp->receive.slots) {
		*bad = wr;
		return EINVAL;
	}
	return put_receives(&qp->receive, &qp->receives_done, qp->cap.max_recv_wr, qp->cap.max_recv_sge, wr, bad);
}

int live_post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct live_srq *srq = (struct live_srq *)base;
	return put_receives(&srq->queue, &srq->done, srq->max_wr, srq->max_sge, wr, bad);
}

/* Cards of Mellanox say there what a datagram's header is of, by which UCX looks for the sender. */
enum { SL_OF_IPV4 = 2 };

/* Count what ends with a completion; 0 if its queue has gone. */
static int end_request(const struct live_completion *c)
{
	if (c->ring >= LIVE_RINGS)
		return 0;
	void *object = __atomic_load_n(&live_owners[c->ring].object, __ATOMIC_RELAXED);
	struct live_qp *qp = object;
	struct live_srq *srq = object;
	switch (__atomic_load_n(&live_owners[c->ring].kind, __ATOMIC_RELAXED)) {
	case LIVE_SEND: /* if the ring is not another's since */
		if (!qp || qp->ex.qp_base.qp_num != c->qp_num)
			return 0;
		__atomic_store_n(&qp->sends_done, c->position, __ATOMIC_RELAXED);
		return 1;
	case LIVE_RECEIVE:
		if (!qp || qp->ex.qp_base.qp_num != c->qp_num)
			return 0;
		__atomic_fetch_add(&qp->receives_done, 1, __ATOMIC_RELAXED);
		return 1;
	case LIVE_SHARED:
		if (!srq)
			return 0;
		__atomic_fetch_add(&srq->done, 1, __ATOMIC_RELAXED);
		return 1;
	default:
		return 0;
	}
}

/* Completions that found no room come when there is some. */
static void tell_of_room(struct live_queue *q)
{
	if (__atomic_load_n(&q->ring->full, __ATOMIC_RELAXED)) {
		__atomic_store_n(&q->ring->full, 0, __ATOMIC_SEQ_CST);
		live_ring_bell();
	}
}

static int take(struct live_cq *cq, int most, struct ibv_wc *wc, uint64_t *time)
{
	struct live_queue *q = &cq->queue;
	uint64_t tail = __atomic_load_n(&q->ring->tail, __ATOMIC_ACQUIRE);
	int found = 0;
	while (found < most && q->next != tail) {
		struct live_completion *c = slot_of(q, q->next++);
		if (!end_request(c))
			continue;
		wc[found++] = (struct ibv_wc){.wr_id = c->wr_id, .status = (int)c->status,
			.opcode = (int)c->opcode, .byte_len = c->byte_len, .imm_data = c->imm,
			.qp_num = c->qp_num, .src_qp = c->src_qp, .wc_flags = c->wc_flags & ~(uint32_t)LIVE_IPV4_BIT,
			.sl = c->wc_flags & LIVE_IPV4_BIT ? SL_OF_IPV4 : 0};
		*time = c->time;
	}
	__atomic_store_n(&q->ring->head, q->next, __ATOMIC_RELEASE);
	tell_of_room(q);
	return found;
}

/* A thread's place among those that poll: who paces the program asks whether each of them waits. */
static __thread struct { struct live_poller *place; uint8_t *segment; uint32_t idle; } own;

static void take_place(void)
{
	struct live_poller *all = (struct live_poller *)(live_link.segment + LIVE_POLLERS_AT);
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	int wrong = errno;
	own.place = NULL;
	own.segment = live_link.segment;
	for (int i = 0; i < (int)LIVE_POLLERS && !own.place; i++) {
		uint32_t before = __atomic_load_n(&all[i].tid, __ATOMIC_RELAXED);
		int is_free = !before || (syscall(SYS_tgkill, live_link.pid, before, 0) && errno == ESRCH);
		if (is_free && __atomic_compare_exchange_n(&all[i].tid, &before, tid, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			own.place = &all[i];
	}
	errno = wrong;
}

/* What an empty poll does: lets the machine run, and looks now and then whether it still does. */
static int rest(struct live_cq *cq)
{
	if (__atomic_load_n(&cq->queue.ring->state, __ATOMIC_RELAXED))
		return -EIO;
	own.idle++; /* polls that found nothing */
	__atomic_store_n(&rests, __atomic_load_n(&rests, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
	if (own.segment != live_link.segment)
		take_place();
	if (own.place)
		__atomic_store_n(&own.place->polls, own.place->polls + 1, __ATOMIC_RELAXED);
	int yields = live_link.header->yields != 0;
	if (yields && own.idle % YIELD_EVERY == 0)
		sched_yield();
	if (own.idle % (yields ? LOOK_OFTEN : LOOK_EVERY) == 0 && !live_is_there())
		live_link.has_gone = 1;
	return live_link.has_gone ? -EIO : 0;
}

int live_poll_cq(struct ibv_cq *base, int most, struct ibv_wc *wc)
{
	struct live_cq *cq = (struct live_cq *)base;
	uint64_t time;
	pthread_spin_lock(&cq->queue.lock);
	int found = take(cq, most, wc, &time);
	pthread_spin_unlock(&cq->queue.lock);
	return found || most < 1 ? found : rest(cq);
}

/* An event for the next completion that is solicited does not replace one for any. */
int live_req_notify_cq(struct ibv_cq *base, int solicited_only)
{
	struct live_cq *cq = (struct live_cq *)base;
	uint32_t none = 0;
	if (solicited_only)
		__atomic_compare_exchange_n(&cq->queue.ring->armed, &none, 2, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	else
		__atomic_store_n(&cq->queue.ring->armed, 1, __ATOMIC_SEQ_CST);
	tell_of_room(&cq->queue);
	return 0;
}

/* Have what a queue pair, or what a ring's owner, has left in a completion queue be skipped. */
void live_forget_completions(struct ibv_cq *base, uint32_t pair, uint32_t ring)
{
	struct live_cq *cq = (struct live_cq *)base;
	pthread_spin_lock(&cq->queue.lock);
	uint64_t tail = __atomic_load_n(&cq->queue.ring->tail, __ATOMIC_ACQUIRE);
	for (uint64_t place = cq->queue.next; place != tail; place++) {
		struct live_completion *c = slot_of(&cq->queue, place);
		if (c->qp_num != pair && c->ring != ring)
			continue;
		end_request(c); /* a shared queue has its place again */
		c->ring = (uint32_t)LIVE_NOBODY;
	}
	pthread_spin_unlock(&cq->queue.lock);
}

/* Extended completion queues: one completion at a time, its parts by calls. */

static int next_poll(struct ibv_cq_ex *ex)
{
	struct live_cq *cq = (struct live_cq *)ex;
	if (take(cq, 1, &cq->now, &cq->now_ns) == 0)
		return ENOENT;
	ex->wr_id = cq->now.wr_id;
	ex->status = cq->now.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct live_cq *cq = (struct live_cq *)ex;
	if (attr->comp_mask)
		return EINVAL;
	pthread_spin_lock(&cq->queue.lock);
	int wrong = next_poll(ex);
	if (wrong) {
		pthread_spin_unlock(&cq->queue.lock);
		int gone = rest(cq);
		return gone ? -gone : wrong;
	}
	return 0;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	pthread_spin_unlock(&((struct live_cq *)ex)->queue.lock);
}

#define READER(type, name, value)                                                        \
	static type name(struct ibv_cq_ex *ex)                                           \
	{                                                                                \
		struct live_cq *cq = (struct live_cq *)ex;                               \
		return (type)(value);                                                    \
	}
READER(int, read_opcode, cq->now.opcode)
READER(uint32_t, read_vendor_err, cq->now.vendor_err)
READER(uint32_t, read_byte_len, cq->now.byte_len)
READER(be32, read_imm_data, cq->now.imm_data)
READER(uint32_t, read_qp_num, cq->now.qp_num)
READER(uint32_t, read_src_qp, cq->now.src_qp)
READER(unsigned, read_wc_flags, cq->now.wc_flags)
READER(uint32_t, read_slid, cq->now.slid)
READER(uint8_t, read_sl, cq->now.sl)
READER(uint8_t, read_dlid_path_bits, cq->now.dlid_path_bits)
READER(uint64_t, read_completion_ts, cq->now_ns)

void live_set_readers(struct ibv_cq_ex *ex)
{
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_completion_ts = read_completion_ts;
	ex->read_completion_wallclock_ns = read_completion_ts;
}

/* Work requests that are built by one call for each part. */

static struct live_send *build(struct ibv_qp_ex *ex, uint32_t opcode)
{
	static __thread union { struct live_send send; uint8_t bytes[1024]; } spare; /* of a request that goes nowhere */
	struct live_qp *qp = (struct live_qp *)ex;
	if (qp->built - __atomic_load_n(&qp->sends_done, __ATOMIC_RELAXED) >= qp->cap.max_send_wr)
		qp->wrong = ENOMEM;
	if (qp->wrong)
		qp->building = &spare.send;
	else
		qp->building = slot_of(&qp->send, qp->built++);
	*qp->building = (struct live_send){.wr_id = ex->wr_id, .opcode = opcode, .send_flags = ex->wr_flags & ~INLINE};
	if (qp->signals_all)
		qp->building->send_flags |= SIGNALED;
	return qp->building;
}

static struct live_send *build_remote(struct ibv_qp_ex *ex, uint32_t opcode, uint32_t rkey, uint64_t remote)
{
	struct live_send *to = build(ex, opcode);
	to->rkey = rkey;
	to->remote = remote;
	return to;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at) { build_remote(ex, 0, rkey, at); }
static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at, be32 imm) { build_remote(ex, 1, rkey, at)->imm = imm; }
static void wr_send(struct ibv_qp_ex *ex) { build(ex, 2); }
static void wr_send_imm(struct ibv_qp_ex *ex, be32 imm) { build(ex, 3)->imm = imm; }
static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at) { build_remote(ex, 4, rkey, at); }
static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey) { build(ex, WR_LOCAL_INV)->imm = rkey; }
static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey) { build(ex, WR_SEND_WITH_INV)->imm = rkey; }

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at, uint64_t compare, uint64_t swap)
{
	struct live_send *to = build_remote(ex, WR_CMP_SWP, rkey, at);
	to->compare = compare;
	to->swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at, uint64_t add)
{
	build_remote(ex, WR_FETCH_ADD, rkey, at)->compare = add;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	(void)mw, (void)rkey, (void)info;
	build(ex, WR_BIND_MW);
	((struct live_qp *)ex)->wrong = EOPNOTSUPP;
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t size, uint16_t mss)
{
	(void)hdr, (void)size, (void)mss;
	build(ex, 2);
	((struct live_qp *)ex)->wrong = EOPNOTSUPP;
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t at, const void *word)
{
	struct live_send *to = build_remote(ex, WR_ATOMIC_WRITE, rkey, at);
	memcpy(to + 1, word, 8);
	to->inlined = 8;
	to->send_flags |= INLINE;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *base, uint32_t qpn, uint32_t qkey)
{
	struct live_send *to = ((struct live_qp *)ex)->building;
	struct live_ah *ah = (struct live_ah *)base;
	memcpy(&to->dgid_high, ah->attr.grh.dgid.raw, 16);
	to->sgid_index = ah->attr.grh.sgid_index;
	to->qpn = qpn;
	to->qkey = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn) { ((struct live_qp *)ex)->building->srqn = srqn; }

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list)
{
	struct live_qp *qp = (struct live_qp *)ex;
	if (count > qp->cap.max_send_sge) {
		qp->wrong = EINVAL;
		return;
	}
	qp->building->pieces = (uint32_t)count;
	put_pieces((struct live_piece *)(qp->building + 1), list, (int)count);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge one = {addr, length, lkey};
	wr_set_sge_list(ex, length ? 1 : 0, &one);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_data_buf *list)
{
	struct live_qp *qp = (struct live_qp *)ex;
	uint8_t *at = (uint8_t *)(qp->building + 1);
	size_t length = 0;
	for (size_t i = 0; i < count; i++) {
		if (list[i].length > qp->cap.max_inline_data - length) {
			qp->wrong = EINVAL;
			return;
		}
		memcpy(at + length, list[i].addr, list[i].length);
		length += list[i].length;
	}
	qp->building->inlined = (uint32_t)length;
	qp->building->send_flags |= INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf one = {addr, length};
	wr_set_inline_data_list(ex, 1, &one);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct live_qp *qp = (struct live_qp *)ex;
	pthread_spin_lock(&qp->send.lock);
	qp->built = qp->send.next;
	qp->wrong = ex->qp_base.state < QPS_RTS ? EINVAL : 0;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct live_qp *qp = (struct live_qp *)ex;
	int wrong = qp->wrong;
	uint64_t before = qp->send.next;
	if (!wrong) {
		qp->send.next = qp->built;
		publish(&qp->send);
	}
	pthread_spin_unlock(&qp->send.lock);
	if (!wrong) {
		live_ring_bell();
		let_run(qp, before);
	}
	return wrong;
}

static void wr_abort(struct ibv_qp_ex *ex) { pthread_spin_unlock(&((struct live_qp *)ex)->send.lock); }

void live_set_builders(struct ibv_qp_ex *ex)
{
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_atomic_write = wr_atomic_write;
}
