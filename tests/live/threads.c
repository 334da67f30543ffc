/* Threads that share a queue of completions and a shared receive queue, and each make and destroy
 * queue pairs and regions while the others post, poll and fork: threads COUNT ROUNDS. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"

struct ibv_device **ibv_get_device_list(int *);
struct ibv_context *ibv_open_device(struct ibv_device *);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *, void *, size_t, int);
int ibv_dereg_mr(struct ibv_mr *);
struct ibv_cq *ibv_create_cq(struct ibv_context *, int, void *, struct ibv_comp_channel *, int);
struct ibv_srq *ibv_create_srq(struct ibv_pd *, struct ibv_srq_init_attr *);
struct ibv_qp *ibv_create_qp(struct ibv_pd *, struct ibv_qp_init_attr *);
int ibv_modify_qp(struct ibv_qp *, struct ibv_qp_attr *, int);
int ibv_destroy_qp(struct ibv_qp *);
int ibv_query_gid(struct ibv_context *, uint8_t, int, union ibv_gid *);

enum { SEND = 2, SIGNALED = 2, RC = 2, MOST = 16, MESSAGES = 8, ROOM = 256, NUMBERS = 1 << 16, BYTES = 256 };
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static union ibv_gid gid;
static atomic_int owner[NUMBERS], sent[MOST], received[MOST]; /* by number of a queue pair, and by thread */
static int rounds;

#define CHECK(what)                                                                                    \
	do {                                                                                           \
		if (!(what)) {                                                                         \
			printf("line %d: %s\n", __LINE__, #what);                                      \
			fflush(stdout);                                                                \
			_exit(1);                                                                      \
		}                                                                                      \
	} while (0)

static struct ibv_qp *made(int thread)
{
	struct ibv_qp *qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){.send_cq = cq, .recv_cq = cq, .srq = srq,
		.qp_type = RC, .cap = {.max_send_wr = MESSAGES, .max_send_sge = 1}});
	CHECK(qp);
	owner[qp->qp_num % NUMBERS] = thread;
	return qp;
}

static void connect_to(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr to = {.qp_state = 1, .port_num = 1, .qp_access_flags = 7, .path_mtu = 5,
		.dest_qp_num = peer->qp_num, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = 1}},
		.max_dest_rd_atomic = 1, .max_rd_atomic = 1, .min_rnr_timer = 1, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7};
	CHECK(!ibv_modify_qp(qp, &to, 1 | 1 << 3 | 1 << 4 | 1 << 5));
	to.qp_state = 2;
	CHECK(!ibv_modify_qp(qp, &to, 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20));
	to.qp_state = 3;
	CHECK(!ibv_modify_qp(qp, &to, 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16));
}

static void receive(struct ibv_mr *mr)
{
	struct ibv_sge piece = {(uintptr_t)mr->addr, BYTES, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &piece, .num_sge = 1}, *bad;
	CHECK(!context->ops.post_srq_recv(srq, &wr, &bad));
}

/* What ends is counted for the thread whose it is, whoever finds it. */
static void look(struct ibv_mr *shared)
{
	struct ibv_wc wc[4];
	int found = context->ops.poll_cq(cq, 4, wc);
	CHECK(found >= 0);
	for (int i = 0; i < found; i++) {
		CHECK(wc[i].status == 0);
		int thread = owner[wc[i].qp_num % NUMBERS];
		if ((int)wc[i].opcode & 128)
			receive(shared);
		atomic_fetch_add((int)wc[i].opcode & 128 ? &received[thread] : &sent[thread], 1);
	}
}

static struct ibv_mr *for_receives;

static void *work(void *number)
{
	int thread = (int)(intptr_t)number;
	char *bytes = malloc(BYTES);
	for (int round = 1; round <= rounds; round++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, bytes, BYTES, 7);
		CHECK(mr);
		struct ibv_qp *from = made(thread), *to = made(thread);
		connect_to(from, to);
		connect_to(to, from);
		for (int i = 0; i < MESSAGES; i++) {
			struct ibv_sge piece = {(uintptr_t)bytes, BYTES, mr->lkey};
			struct ibv_send_wr wr = {.sg_list = &piece, .num_sge = 1, .opcode = SEND, .send_flags = SIGNALED}, *bad;
			CHECK(!context->ops.post_send(from, &wr, &bad));
		}
		while (sent[thread] < round * MESSAGES || received[thread] < round * MESSAGES)
			look(for_receives);
		CHECK(!ibv_destroy_qp(from) && !ibv_destroy_qp(to) && !ibv_dereg_mr(mr));
	}
	free(bytes);
	return NULL;
}

int main(int count, char **words)
{
	int threads = count > 1 ? atoi(words[1]) : 4;
	static char buffer[BYTES];
	pthread_t made_threads[MOST];
	rounds = count > 2 ? atoi(words[2]) : 10;
	CHECK(threads <= MOST);
	context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	CHECK(context && !ibv_query_gid(context, 1, 1, &gid));
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 2 * MOST * MESSAGES, NULL, NULL, 0);
	srq = ibv_create_srq(pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = ROOM, .max_sge = 1}});
	for_receives = ibv_reg_mr(pd, buffer, BYTES, 7);
	CHECK(cq && srq && for_receives);
	for (int i = 0; i < ROOM; i++)
		receive(for_receives);
	for (int i = 0; i < threads; i++)
		pthread_create(&made_threads[i], NULL, work, (void *)(intptr_t)i);
	for (int i = 0; i < 3; i++) { /* children have no part of it */
		pid_t child = fork();
		if (!child)
			_exit(0);
		int status;
		waitpid(child, &status, 0);
		CHECK(status == 0);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(made_threads[i], NULL);
	return 0;
}
