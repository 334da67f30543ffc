/* What a recording is tested with: asking HOW COUNT, over the library of stub_card.c. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"

struct ibv_device **ibv_get_device_list(int *);
struct ibv_context *ibv_open_device(struct ibv_device *);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *, void *, size_t, int);
int ibv_dereg_mr(struct ibv_mr *);
struct ibv_cq *ibv_create_cq(struct ibv_context *, int, void *, void *, int);
struct ibv_qp *ibv_create_qp(struct ibv_pd *, struct ibv_qp_init_attr *);
int ibv_modify_qp(struct ibv_qp *, struct ibv_qp_attr *, int);
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *);

enum { SEND = 2, WRITE = 0, READ = 4, SIGNALED = 2, INLINE = 8, RC = 2, BYTES = 1 << 16 };
static _Alignas(4096) char buffer[BYTES];
static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct ibv_mr *mr;

static void post(int opcode, uint64_t wr_id, unsigned flags, int pieces, uint64_t at, uint32_t length)
{
	struct ibv_sge sge[8];
	for (int i = 0; i < pieces; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)buffer + at + (uint64_t)i * 4096, length, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = sge, .num_sge = pieces, .opcode = opcode,
		.send_flags = flags, .wr.rdma = {(uintptr_t)buffer + 64, mr->rkey}}, *bad;
	qp->context->ops.post_send(qp, &wr, &bad);
}

static void receive(uint64_t wr_id, uint64_t at, uint32_t length)
{
	struct ibv_sge sge[2] = {{(uintptr_t)buffer + at, length, mr->lkey}, {(uintptr_t)buffer + at + 8192, length, mr->lkey}};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sge, .num_sge = 2}, *bad;
	qp->context->ops.post_recv(qp, &wr, &bad);
}

static int poll(void)
{
	struct ibv_wc wc[64];
	int found, all = 0;
	while ((found = qp->context->ops.poll_cq(cq, 64, wc)) > 0)
		all += found;
	return all;
}

static void *many(void *count)
{
	for (long i = 0; i < (long)count; i++)
		post(WRITE, (uint64_t)i, 0, 1, 0, 8);
	return NULL;
}

static void extended(long count)
{
	struct verbs_context *verbs = (struct verbs_context *)((char *)qp->context - offsetof(struct verbs_context, context));
	struct ibv_cq_ex *ex = verbs->create_cq_ex(qp->context, &(struct ibv_cq_init_attr_ex){.cqe = 64});
	struct ibv_qp *made = verbs->create_qp_ex(qp->context, &(struct ibv_qp_init_attr_ex){.send_cq = &ex->base,
		.recv_cq = &ex->base, .qp_type = RC});
	struct ibv_qp_ex *wr = ibv_qp_to_qp_ex(made);
	struct ibv_sge two[2] = {{(uintptr_t)buffer, 100, mr->lkey}, {(uintptr_t)buffer + 4096, 200, mr->lkey}};
	for (long i = 0; i < count; i++) {
		wr->wr_start(wr);
		wr->wr_id = 2 * (uint64_t)i;
		wr->wr_rdma_write(wr, mr->rkey, (uintptr_t)buffer + 64);
		wr->wr_set_sge(wr, mr->lkey, (uintptr_t)buffer, 300);
		wr->wr_id++;
		wr->wr_rdma_write(wr, mr->rkey, (uintptr_t)buffer + 64);
		wr->wr_set_sge_list(wr, 2, two);
		wr->wr_complete(wr);
		wr->wr_start(wr); /* and none of this one */
		wr->wr_rdma_write(wr, mr->rkey, (uintptr_t)buffer);
		wr->wr_set_sge(wr, mr->lkey, (uintptr_t)buffer, 1);
		wr->wr_abort(wr);
	}
	struct ibv_poll_cq_attr attr = {0};
	long found = ex->start_poll(ex, &attr) == 0;
	while (found && ex->next_poll(ex) == 0)
		found++;
	printf("%ld\n", found);
}

/* As NCCL does: the library is loaded, and its calls are asked for by their versions. */
static void looked_up(long count)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	struct ibv_context *(*opens)(struct ibv_device *) =
		(struct ibv_context *(*)(struct ibv_device *))dlvsym(library, "ibv_open_device", "IBVERBS_1.1");
	struct ibv_mr *(*registers)(struct ibv_pd *, void *, size_t, int) =
		(struct ibv_mr *(*)(struct ibv_pd *, void *, size_t, int))dlvsym(library, "ibv_reg_mr", "IBVERBS_1.1");
	if (dlvsym(library, "ibv_open_device", "IBVERBS_9.9") || dlvsym(library, "ibv_none", "IBVERBS_1.1"))
		_exit(1);
	struct ibv_pd *pd = ibv_alloc_pd(opens(ibv_get_device_list(NULL)[0]));
	mr = registers(pd, buffer, BYTES, 7);
	qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){.send_cq = cq, .recv_cq = cq, .qp_type = RC});
	many((void *)count);
}

int main(int arguments, char **words)
{
	const char *how = arguments > 1 ? words[1] : "some";
	long count = arguments > 2 ? atol(words[2]) : 10;
	struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	mr = ibv_reg_mr(pd, buffer, BYTES, 7);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){.send_cq = cq, .recv_cq = cq, .qp_type = RC,
		.cap = {.max_send_wr = 11, .max_recv_wr = 12}});
	struct ibv_qp_attr to = {.dest_qp_num = qp->qp_num, .ah_attr = {.is_global = 1, .grh.dgid.raw[15] = 9}};
	ibv_modify_qp(qp, &to, 1 << 7 | 1 << 20);
	if (!strcmp(how, "some")) {
		receive(1, 0, 1000);
		receive(1, 16, 1000); /* the same number: the older ends first */
		receive(2, 32, 1000);
		post(SEND, 5, SIGNALED, 1, 128, 1500); /* a receive's first piece, and half of its second */
		post(SEND, 6, 0, 2, 256, 100);
		post(WRITE, 7, SIGNALED | INLINE, 1, 0, 32); /* no memory is read here, but written there */
		post(READ, 8, SIGNALED, 3, 0, 64);
		post(WRITE, 0xbad, SIGNALED, 1, 0, 4096); /* ends with an error */
		post(WRITE, 9, 0, 5, 0, 4096); /* is not taken */
		post(SEND, 10, SIGNALED, 0, 0, 0);
		printf("%d\n", poll());
		ibv_dereg_mr(mr);
	} else if (!strcmp(how, "threads")) {
		pthread_t threads[4];
		for (int i = 0; i < 4; i++)
			pthread_create(&threads[i], NULL, many, (void *)count);
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
	} else if (!strcmp(how, "fork")) {
		many((void *)count);
		pid_t child = fork();
		many((void *)(child ? count : 2 * count));
		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	} else if (!strcmp(how, "left")) { /* a child that outlives it */
		if (fork())
			_exit(7);
		usleep(500000);
		many((void *)count);
	} else if (!strcmp(how, "_exit")) {
		many((void *)count);
		_exit(3);
	} else if (!strcmp(how, "kill")) {
		many((void *)count);
		kill(getpid(), SIGKILL);
	} else if (!strcmp(how, "looked_up")) {
		looked_up(count);
	} else if (!strcmp(how, "extended")) {
		extended(count);
	} else {
		struct timespec from, till;
		for (int round = 0; round < 5; round++) {
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
			many((void *)count);
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &till);
			printf("%.2f\n", ((double)(till.tv_sec - from.tv_sec) * 1e9 + (double)(till.tv_nsec - from.tv_nsec)) / (double)count);
		}
	}
	return 0;
}
