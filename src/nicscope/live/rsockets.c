/* Stream rsockets: sockets' calls over verbs.  A connection is a reliable queue pair; bytes go as
 * messages from a ring of registered buffers into buffers that the peer has posted, of which it
 * tells in the head of what it sends.  An rsocket's number is its event channel's descriptor. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "rsockets.h"

static struct rsock *table[MOST_NUMBER];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

short rs_now_at(int file)
{
	struct pollfd at = {.fd = file, .events = POLLIN};
	return poll(&at, 1, 0) > 0 ? at.revents : 0;
}

int64_t rs_now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Made and destroyed ---- */

struct rsock *rs_new(int domain)
{
	struct rsock *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	if (!(s->events = rdma_create_event_channel())) {
		free(s);
		return NULL;
	}
	if (s->events->fd >= MOST_NUMBER) {
		rdma_destroy_event_channel(s->events);
		free(s);
		errno = EMFILE;
		return NULL;
	}
	s->domain = domain;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->moved, NULL);
	return s;
}

void rs_drop_queues(struct rsock *s)
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

void rs_destroy(struct rsock *s)
{
	if (s->id)
		rs_drop_queues(s);
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

int rs_enlist(struct rsock *s)
{
	pthread_mutex_lock(&table_lock);
	s->users = 1; /* until it is closed */
	table[s->events->fd] = s;
	pthread_mutex_unlock(&table_lock);
	return s->events->fd;
}

/* The rsocket of a number, locked; NULL, with EBADF, if it is none. */
struct rsock *rs_enter(int number)
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
void rs_leave(struct rsock *s, int users)
{
	int error = errno;
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_lock(&table_lock);
	s->users -= users;
	int is_last = !s->users;
	pthread_mutex_unlock(&table_lock);
	if (is_last)
		rs_destroy(s);
	errno = error;
}

/* Take one out of the table; 0 if another thread has. */
int rs_strike(struct rsock *s, int number)
{
	pthread_mutex_lock(&table_lock);
	int is_there = table[number] == s;
	if (is_there)
		table[number] = NULL;
	pthread_mutex_unlock(&table_lock);
	return is_there;
}

int rs_is_one(int number)
{
	pthread_mutex_lock(&table_lock);
	int found = number >= 0 && number < MOST_NUMBER && table[number];
	pthread_mutex_unlock(&table_lock);
	return found;
}

/* ---- Messages ---- */

uint8_t *rs_place(struct rsock *s, uint64_t slot) { return s->memory + slot * SLOT; }
uint8_t *rs_next_place(struct rsock *s) { return rs_place(s, s->receives + s->sent % s->sends); }

void rs_post_receive(struct rsock *s, uint32_t slot)
{
	struct ibv_sge piece = {(uintptr_t)rs_place(s, slot), SLOT, s->mr->lkey};
	struct ibv_recv_wr request = {.wr_id = slot, .sg_list = &piece, .num_sge = 1}, *bad;
	if (s->id->verbs->ops.post_recv(s->id->qp, &request, &bad))
		s->cannot_receive = s->cannot_send = 1;
}

void rs_post(struct rsock *s, struct ibv_send_wr request, uint32_t bytes)
{
	struct ibv_sge piece = {(uintptr_t)rs_next_place(s), bytes, s->mr->lkey};
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
void rs_tell(struct rsock *s, uint32_t kind, uint32_t bytes)
{
	struct head head = {kind, s->owed};
	memcpy(rs_next_place(s), &head, sizeof head);
	s->owed = 0;
	s->credits -= kind != CREDITS && kind != END;
	rs_post(s, (struct ibv_send_wr){.opcode = SEND}, (uint32_t)sizeof head + bytes);
}

/* What is said without being asked: buffers that are free again, the end of the stream. */
void rs_tell_what_is_due(struct rsock *s)
{
	if (s->state != UP || s->cannot_send || s->sent - s->done >= s->sends)
		return;
	if (s->is_shut_out && !s->is_end_told) {
		s->is_end_told = 1;
		rs_tell(s, END, 0);
	} else if (s->owed >= (s->receives - SPARE) / 2 && !s->is_closed) {
		rs_tell(s, CREDITS, 0);
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
		s->error = s->error || s->has_ended ? s->error : ECONNRESET;
		return;
	}
	struct head head = {0};
	uint32_t slot = (uint32_t)wc->wr_id;
	if (wc->byte_len >= sizeof head)
		memcpy(&head, rs_place(s, slot), sizeof head);
	s->state = UP;
	s->credits += head.credits;
	if (head.kind == DATA && !s->is_shut_in) {
		s->queue[s->last++ % (MOST + SPARE)] = (struct stretch){slot, sizeof head, wc->byte_len};
		return;
	}
	s->has_ended |= head.kind == END;
	s->owed += head.kind != END && head.kind != CREDITS;
	if ((head.kind == MAPPED || head.kind == UNMAPPED) && wc->byte_len == sizeof head + sizeof(struct map))
		note_map(s, head.kind, rs_place(s, slot) + sizeof head);
	rs_post_receive(s, slot);
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

int rs_read_hello(struct rsock *s, const struct rdma_conn_param *param)
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
	if (event->event == RDMA_CM_EVENT_ESTABLISHED && s->state == CONNECTING && !rs_read_hello(s, &event->param.conn))
		fail(s, EPROTO); /* what listens there has no rsockets */
	else if (event->event == RDMA_CM_EVENT_ESTABLISHED)
		s->state = UP;
	else if (event->event == RDMA_CM_EVENT_DISCONNECTED)
		s->cannot_send = 1; /* receives end after what has arrived */
	else if (s->state == CONNECTING || s->state == ACCEPTED)
		fail(s, event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : ECONNRESET);
}

/* Take notice of all that has happened; sleeps for nothing. */
void rs_look_around(struct rsock *s)
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
		short at = rs_now_at(s->events->fd);
		if (found < 0 || (at & (POLLIN | POLLHUP)) == POLLHUP)
			fail(s, EIO); /* the machine has gone */
		else if (!(at & POLLIN) || rdma_get_cm_event(s->events, &event))
			break;
		else {
			take_event(s, event);
			rdma_ack_cm_event(event);
		}
	}
	rs_tell_what_is_due(s);
	if (s->changes != before)
		pthread_cond_broadcast(&s->moved);
}

/* After a sleep: no thread but the one that sleeps for all takes the channel's events. */
void rs_drain(struct rsock *s)
{
	struct ibv_cq *cq;
	void *program;
	if (s->completions && rs_now_at(s->completions->fd) & POLLIN && !ibv_get_cq_event(s->completions, &cq, &program))
		ibv_ack_cq_events(cq, 1);
}

/* What to sleep on. */
nfds_t rs_arm(struct rsock *s, struct pollfd at[2])
{
	at[0] = (struct pollfd){.fd = s->events->fd, .events = POLLIN};
	if (s->cq) {
		at[1] = (struct pollfd){.fd = s->completions->fd, .events = POLLIN};
		s->id->verbs->ops.req_notify_cq(s->cq, 0);
	}
	rs_look_around(s);
	return s->cq ? 2 : 1;
}

/* Have threads that wait look at what another has shut: the end of a message wakes who sleeps. */
void rs_wake(struct rsock *s)
{
	if (s->is_awaited && !s->is_woken && s->state == UP && !s->cannot_send && s->sent - s->done < s->sends) {
		s->is_woken = 1;
		rs_tell(s, CREDITS, 0);
	}
	pthread_cond_broadcast(&s->moved);
}

/* Sleep until something has happened; -1 after a signal. */
int rs_await(struct rsock *s, int timeout_ms)
{
	struct pollfd at[2];
	nfds_t count;
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
	count = rs_arm(s, at);
	if (s->changes == before) {
		pthread_mutex_unlock(&s->lock);
		found = poll(at, count, timeout_ms);
		int error = errno;
		pthread_mutex_lock(&s->lock);
		rs_drain(s);
		rs_look_around(s);
		errno = error;
	}
	s->is_awaited = 0;
	pthread_cond_broadcast(&s->moved);
	return found < 0 ? -1 : 0;
}

