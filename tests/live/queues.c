/* Queues of a program, as a card's library leaves them: queues HOW, over the machine of a test. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi.h"

struct ibv_device **ibv_get_device_list(int *);
struct ibv_context *ibv_open_device(struct ibv_device *);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *, void *, size_t, int);
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *);
struct ibv_cq *ibv_create_cq(struct ibv_context *, int, void *, struct ibv_comp_channel *, int);
struct ibv_srq *ibv_create_srq(struct ibv_pd *, struct ibv_srq_init_attr *);
struct ibv_qp *ibv_create_qp(struct ibv_pd *, struct ibv_qp_init_attr *);
int ibv_modify_qp(struct ibv_qp *, struct ibv_qp_attr *, int);
int ibv_destroy_qp(struct ibv_qp *);
int ibv_query_gid(struct ibv_context *, uint8_t, int, union ibv_gid *);

enum { SEND = 2, SIGNALED = 2, SOLICITED = 4, RC = 2, RESET = 0, ERR = 6, ROOM = 8, MESSAGES = 6, FEW = 4 };
static char buffer[4096];
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *sent, *received;

#define CHECK(what)                                                                                    \
	do {                                                                                           \
		if (!(what)) {                                                                         \
			printf("line %d: %s\n", __LINE__, #what);                                      \
			exit(1);                                                                       \
		}                                                                                      \
	} while (0)

static struct ibv_qp *made(struct ibv_srq *srq)
{
	struct ibv_qp *qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){.send_cq = sent, .recv_cq = received, .srq = srq,
		.qp_type = RC, .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}});
	CHECK(qp);
	return qp;
}

static void connect_to(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr to = {.qp_state = 1, .port_num = 1, .qp_access_flags = 7, .path_mtu = 5,
		.dest_qp_num = peer->qp_num, .ah_attr = {.is_global = 1, .port_num = 1, .grh.sgid_index = 1},
		.max_dest_rd_atomic = 1, .max_rd_atomic = 1, .min_rnr_timer = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
	ibv_query_gid(context, 1, 1, &to.ah_attr.grh.dgid);
	CHECK(!ibv_modify_qp(qp, &to, 1 | 1 << 3 | 1 << 4 | 1 << 5));
	to.qp_state = 2;
	CHECK(!ibv_modify_qp(qp, &to, 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20));
	to.qp_state = 3;
	CHECK(!ibv_modify_qp(qp, &to, 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16));
}

static int send_one(struct ibv_qp *qp, unsigned flags)
{
	struct ibv_sge piece = {(uintptr_t)buffer, 8, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &piece, .num_sge = 1, .opcode = SEND, .send_flags = flags}, *bad;
	return context->ops.post_send(qp, &wr, &bad);
}

static int receive_one(struct ibv_qp *qp, struct ibv_srq *srq)
{
	struct ibv_sge piece = {(uintptr_t)buffer + 64, 64, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &piece, .num_sge = 1}, *bad;
	return srq ? context->ops.post_srq_recv(srq, &wr, &bad) : context->ops.post_recv(qp, &wr, &bad);
}

static int await_ends(struct ibv_cq *cq, int count)
{
	struct ibv_wc wc;
	int status = 0;
	while (count) {
		int found = context->ops.poll_cq(cq, 1, &wc);
		CHECK(found >= 0);
		count -= found;
		status = found ? (int)wc.status : status;
	}
	return status;
}

/* First as many as the peer's queue of completions has places for: those of the others wait. */
static void send_all(struct ibv_qp *qp)
{
	for (int i = 0; i < FEW; i++)
		CHECK(!send_one(qp, SIGNALED));
	CHECK(await_ends(sent, FEW) == 0);
	for (int i = FEW; i < MESSAGES; i++)
		CHECK(!send_one(qp, SIGNALED));
	CHECK(await_ends(sent, MESSAGES - FEW) == 0);
}

/* A queue pair is reset, fails or is destroyed before what it drew from a shared queue was seen. */
static void shared(const char *how, int rounds)
{
	struct ibv_srq *srq = ibv_create_srq(pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = ROOM, .max_sge = 1}});
	struct ibv_wc wc;
	CHECK(srq);
	for (int round = 0; round < rounds; round++) {
		struct ibv_qp *from = made(NULL), *to = made(srq);
		connect_to(from, to);
		connect_to(to, from);
		int posted = 0;
		while (!receive_one(NULL, srq))
			posted++;
		CHECK(posted == (round ? MESSAGES : ROOM));
		send_all(from);
		if (!strcmp(how, "reset"))
			CHECK(!ibv_modify_qp(to, &(struct ibv_qp_attr){.qp_state = RESET}, 1));
		if (!strcmp(how, "error"))
			CHECK(!ibv_modify_qp(to, &(struct ibv_qp_attr){.qp_state = ERR}, 1));
		if (strcmp(how, "reset"))
			CHECK(!ibv_destroy_qp(to));
		CHECK(context->ops.poll_cq(received, 1, &wc) == 0);
		CHECK(!ibv_destroy_qp(from));
		if (!strcmp(how, "reset"))
			CHECK(!ibv_destroy_qp(to));
	}
}

/* Who waits for any completion is not made to wait for a solicited one by another who asks. */
static void armed(struct ibv_comp_channel *channel)
{
	struct ibv_qp *from = made(NULL), *to = made(NULL);
	struct pollfd one = {.fd = channel->fd, .events = POLLIN};
	connect_to(from, to);
	connect_to(to, from);
	for (int i = 0; i < 3; i++)
		CHECK(!receive_one(to, NULL));
	CHECK(!context->ops.req_notify_cq(received, 1));
	CHECK(!send_one(from, SIGNALED));
	CHECK(await_ends(sent, 1) == 0 && await_ends(received, 1) == 0);
	CHECK(poll(&one, 1, 0) == 0); /* it is not solicited */
	CHECK(!context->ops.req_notify_cq(received, 0));
	CHECK(!context->ops.req_notify_cq(received, 1));
	CHECK(!send_one(from, SIGNALED));
	CHECK(await_ends(sent, 1) == 0);
	CHECK(poll(&one, 1, 60000) == 1);
}

/* More has ended than the queue has places: the rest comes as soon as there is room. */
static void full(void)
{
	struct ibv_qp *from = made(NULL), *to = made(NULL);
	connect_to(from, to);
	connect_to(to, from);
	for (int i = 0; i < MESSAGES; i++)
		CHECK(!receive_one(to, NULL));
	send_all(from);
	printf("full\n");
	fflush(stdout);
	CHECK(getchar() == '\n'); /* the machine sleeps */
	CHECK(await_ends(received, FEW) == 0);
	CHECK(await_ends(received, MESSAGES - FEW) == 0);
}

int main(int count, char **words)
{
	context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	CHECK(context);
	pd = ibv_alloc_pd(context);
	mr = ibv_reg_mr(pd, buffer, sizeof buffer, 7);
	CHECK(mr);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	sent = ibv_create_cq(context, 64, NULL, NULL, 0);
	received = ibv_create_cq(context, FEW, NULL, channel, 0);
	CHECK(sent && received);
	const char *how = count > 1 ? words[1] : "";
	if (!strcmp(how, "armed"))
		armed(channel);
	else if (!strcmp(how, "full"))
		full();
	else
		shared(how, count > 2 ? atoi(words[2]) : 1);
	return 0;
}
