/* What the files of rsockets share: an rsocket, its messages, and how it waits. */
#ifndef NICSCOPE_LIVE_RSOCKETS_H
#define NICSCOPE_LIVE_RSOCKETS_H

#include <errno.h>
#include <poll.h>
#include <string.h>

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
 * is about half of the buffers, the one that ends the stream, and one that wakes. */
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
	int is_closed, has_ended, is_shut_in, is_shut_out, is_end_told, is_woken, cannot_receive, cannot_send;
	uint32_t receives, sends, credits, owed;
	uint64_t sent, done;
	struct stretch queue[MOST + SPARE];
	uint64_t first, last; /* of the queue */
	int option[OPTIONS];
	struct linger linger;
	struct own_map own[MOST_MAPS];
	struct map theirs[MOST_MAPS];
};

static inline int wrong(int number)
{
	errno = number;
	return number ? -1 : 0;
}

short rs_now_at(int file);
int64_t rs_now_ms(void);
struct rsock *rs_new(int domain);
void rs_drop_queues(struct rsock *s);
int rs_enlist(struct rsock *s);
struct rsock *rs_enter(int number);
void rs_leave(struct rsock *s, int users);
int rs_strike(struct rsock *s, int number);
int rs_is_one(int number);
uint8_t *rs_place(struct rsock *s, uint64_t slot);
uint8_t *rs_next_place(struct rsock *s);
void rs_post_receive(struct rsock *s, uint32_t slot);
void rs_post(struct rsock *s, struct ibv_send_wr request, uint32_t bytes);
void rs_tell(struct rsock *s, uint32_t kind, uint32_t bytes);
void rs_tell_what_is_due(struct rsock *s);
int rs_read_hello(struct rsock *s, const struct rdma_conn_param *param);
void rs_look_around(struct rsock *s);
void rs_drain(struct rsock *s);
nfds_t rs_arm(struct rsock *s, struct pollfd at[2]);
void rs_wake(struct rsock *s);
int rs_await(struct rsock *s, int timeout_ms);
void rs_destroy(struct rsock *s);

#endif
