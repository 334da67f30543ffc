/* What the files of the library share: the link to the machine, and objects with their queues. */
#ifndef NICSCOPE_LIVE_H
#define NICSCOPE_LIVE_H

#include "abi.h"
#include "layout.h"

#define EXPORT __attribute__((visibility("default")))

struct live_answer { uint64_t error, word[LIVE_WORDS - 1]; };
struct live_question { uint64_t operation, word[LIVE_WORDS - 1]; };

/* What librdmacm uses of the library beside it. */
int live_ask_machine(struct live_question *, struct live_answer *, int given);
uint64_t live_fact(int which);
struct ibv_device *live_device(void); /* NULL if there is no machine */
int live_is_there(void); /* 0 if the machine has gone */
void live_await_end(void); /* of the machine */

/* A process's one connection to the machine, whatever it opens. */
struct live_link {
	int socket, bell;
	pid_t pid;
	unsigned opened; /* contexts */
	int has_gone; /* 1: the machine, as a poll has found */
	uint8_t *segment; /* NULL: not attached */
	struct live_header *header;
	struct live_ring *rings;
	uint64_t facts[LIVE_FACT_COUNT];
	pthread_mutex_t lock; /* of the socket: one question at a time */
};
extern struct live_link live_link;

/* A ring of which this process is one end. */
struct live_queue {
	struct live_ring *ring;
	uint8_t *slots;
	uint64_t next; /* the end that is ours */
	uint32_t number, stride, mask;
	pthread_spinlock_t lock;
};

struct live_context {
	int async_write;
	struct verbs_context verbs;
};

struct live_cq {
	struct ibv_cq_ex ex;
	struct live_queue queue;
	uint32_t events; /* that the program has taken */
	struct ibv_wc now; /* of an extended queue: what is looked at */
	uint64_t now_ns;
};

struct live_srq {
	struct ibv_srq base;
	struct live_queue queue;
	struct ibv_cq *cq; /* of an XRC domain's: where its receives end */
	uint32_t max_wr, max_sge, number;
	uint64_t done; /* receives that have ended */
};

struct live_qp {
	struct ibv_qp_ex ex;
	struct live_queue send, receive;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr held;
	uint64_t sends_done, receives_done;
	uint64_t rests, stream_end; /* empty polls at its last request; requests up to there are one stream */
	int signals_all, is_extended;
	/* What is built by wr_*: up to which of the queue it reaches, and what was wrong. */
	uint64_t built;
	struct live_send *building;
	int wrong;
	struct ibv_srq *srq;
};

struct live_ah {
	struct ibv_ah base;
	struct ibv_ah_attr attr;
};

/* Who owns a ring, so that completions find it. */
enum { LIVE_NONE, LIVE_SEND, LIVE_RECEIVE, LIVE_SHARED, LIVE_COMPLETIONS };
struct live_owner { int kind; void *object; };
extern struct live_owner live_owners[LIVE_RINGS];

void live_open_queue(struct live_queue *, uint64_t number, uint64_t at, uint64_t stride, uint64_t slots);
void live_ring_bell(void);
void live_forget_completions(struct ibv_cq *, uint32_t pair, uint32_t ring);

int live_poll_cq(struct ibv_cq *, int, struct ibv_wc *);
int live_req_notify_cq(struct ibv_cq *, int);
int live_post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
int live_post_recv(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
int live_post_srq_recv(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
void live_set_builders(struct ibv_qp_ex *);
void live_set_readers(struct ibv_cq_ex *);

#endif
