/* What goes through an rsocket that is connected: bytes, writes into regions; and waiting for many. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/uio.h>

#include "rsockets.h"

/* ---- Bytes ---- */

/* 0 once there is room to send, of credits too where the message takes one; else an errno. */
static int await_room(struct rsock *s, int takes_credit, int waits)
{
	for (int is_known = 0;; is_known = 1) {
		if (s->state < CONNECTING)
			return ENOTCONN;
		if (s->is_shut_out)
			return EPIPE;
		if (is_known && s->cannot_send)
			return s->has_ended ? EPIPE : s->error ? s->error : ECONNRESET;
		if (is_known && s->state == UP && (s->credits || !takes_credit) && s->sent - s->done < s->sends - SPARE)
			return 0;
		if (is_known && !waits)
			return EAGAIN;
		if (!is_known)
			rs_look_around(s);
		else if (rs_await(s, -1))
			return errno;
	}
}

/* Bytes of them that were sent, or -1. */
static ssize_t send_all(int number, const struct iovec *from, int count, int flags)
{
	struct rsock *s = rs_enter(number);
	ssize_t sent = 0;
	int error = 0;
	if (!s)
		return -1;
	if (flags & MSG_OOB)
		error = EOPNOTSUPP;
	int waits = !s->is_nonblocking && !(flags & MSG_DONTWAIT);
	int i = 0;
	size_t at = 0; /* in the i-th piece */
	while (i < count && !from[i].iov_len)
		i++;
	while (i < count && !error && !(error = await_room(s, 1, waits))) {
		uint8_t *to = rs_next_place(s) + sizeof(struct head);
		size_t filled = 0;
		while (i < count && filled < PAYLOAD) {
			size_t rest = from[i].iov_len - at, part = rest < PAYLOAD - filled ? rest : PAYLOAD - filled;
			if (part)
				memcpy(to + filled, (const uint8_t *)from[i].iov_base + at, part);
			filled += part;
			at = part < rest ? at + part : 0;
			i += part == rest;
		}
		rs_tell(s, DATA, (uint32_t)filled);
		sent += (ssize_t)filled;
	}
	rs_leave(s, 1);
	return sent || !error ? sent : wrong(error);
}

static int await_bytes(struct rsock *s, int waits)
{
	rs_look_around(s);
	while (s->first == s->last) {
		if (s->state < CONNECTING)
			return ENOTCONN;
		if (s->is_shut_in || s->has_ended)
			return EPIPE; /* the end */
		if (s->cannot_receive)
			return s->error ? s->error : ECONNRESET;
		if (!waits)
			return EAGAIN;
		if (rs_await(s, -1))
			return errno;
	}
	return 0;
}

/* Into `to` from what has come; what was only looked at stays. */
static size_t take_bytes(struct rsock *s, uint8_t *to, size_t most, int is_look)
{
	size_t taken = 0;
	for (uint64_t next = s->first; next < s->last && taken < most; next++) {
		struct stretch *each = &s->queue[next % (MOST + SPARE)];
		size_t part = each->end - each->at < most - taken ? each->end - each->at : most - taken;
		memcpy(to + taken, rs_place(s, each->slot) + each->at, part);
		taken += part;
		each->at += is_look ? 0 : (uint32_t)part;
		if (each->at < each->end)
			continue;
		rs_post_receive(s, each->slot);
		s->first++;
		s->owed++;
	}
	if (!is_look)
		rs_tell_what_is_due(s);
	return taken;
}

static ssize_t receive_all(int number, const struct iovec *to, int count, int flags)
{
	struct rsock *s = rs_enter(number);
	ssize_t found = 0;
	int error = 0;
	if (!s)
		return -1;
	if (flags & MSG_OOB)
		error = EOPNOTSUPP;
	int waits = !s->is_nonblocking && !(flags & MSG_DONTWAIT), is_look = flags & MSG_PEEK;
	for (int i = 0; i < count && !error; i++) {
		for (size_t at = 0; at < to[i].iov_len && !(error = await_bytes(s, waits && (!found || flags & MSG_WAITALL)));) {
			size_t part = take_bytes(s, (uint8_t *)to[i].iov_base + at, to[i].iov_len - at, is_look);
			at += part;
			found += (ssize_t)part;
			if (is_look)
				goto done; /* one piece is enough to look at */
		}
	}
done:
	rs_leave(s, 1);
	return found || !error || error == EPIPE ? found : wrong(error);
}

EXPORT ssize_t rsend(int number, const void *from, size_t bytes, int flags)
{
	return send_all(number, &(struct iovec){(void *)(uintptr_t)from, bytes}, 1, flags);
}

EXPORT ssize_t rsendto(int number, const void *from, size_t bytes, int flags, const struct sockaddr *to, socklen_t size)
{
	(void)to, (void)size; /* a stream has one peer */
	return rsend(number, from, bytes, flags);
}

EXPORT ssize_t rsendmsg(int number, const struct msghdr *message, int flags)
{
	if (message->msg_controllen)
		return wrong(EOPNOTSUPP);
	return send_all(number, message->msg_iov, (int)message->msg_iovlen, flags);
}

EXPORT ssize_t rwrite(int number, const void *from, size_t bytes) { return rsend(number, from, bytes, 0); }
EXPORT ssize_t rwritev(int number, const struct iovec *from, int count) { return send_all(number, from, count, 0); }

EXPORT ssize_t rrecv(int number, void *to, size_t bytes, int flags)
{
	return receive_all(number, &(struct iovec){to, bytes}, 1, flags);
}

EXPORT ssize_t rrecvfrom(int number, void *to, size_t bytes, int flags, struct sockaddr *from, socklen_t *size)
{
	ssize_t found = rrecv(number, to, bytes, flags);
	if (from && size && found >= 0)
		*size = 0; /* a stream has one peer */
	return found;
}

EXPORT ssize_t rrecvmsg(int number, struct msghdr *message, int flags)
{
	ssize_t found = receive_all(number, message->msg_iov, (int)message->msg_iovlen, flags);
	if (found >= 0)
		message->msg_controllen = message->msg_namelen = 0, message->msg_flags = 0;
	return found;
}

EXPORT ssize_t rread(int number, void *to, size_t bytes) { return rrecv(number, to, bytes, 0); }
EXPORT ssize_t rreadv(int number, const struct iovec *to, int count) { return receive_all(number, to, count, 0); }

/* ---- Regions that the peer writes into ---- */

static void tell_of(struct rsock *s, uint32_t kind, const struct map *map)
{
	memcpy(rs_next_place(s) + sizeof(struct head), map, sizeof *map);
	rs_tell(s, kind, sizeof *map);
}

EXPORT off_t riomap(int number, void *at, size_t bytes, int prot, int flags, off_t offset)
{
	struct rsock *s = rs_enter(number);
	if (!s)
		return -1;
	int slot = 0, error = flags || !bytes ? EINVAL : 0;
	while (slot < MOST_MAPS && s->own[slot].told.bytes)
		slot++;
	if (!error && (slot >= s->option[O_MAPS] || slot == MOST_MAPS))
		error = ENOMEM;
	struct own_map made = {{offset == -1 ? (uintptr_t)at : (uint64_t)offset, bytes, (uintptr_t)at, 0}, NULL};
	if (!error && prot & PROT_WRITE && !(error = await_room(s, 1, 1))) {
		if ((made.mr = ibv_reg_mr(s->id->pd, at, bytes, LOCAL_WRITE | REMOTE_WRITE))) {
			made.told.key = made.mr->rkey;
			tell_of(s, MAPPED, &made.told);
		} else {
			error = errno;
		}
	}
	if (!error)
		s->own[slot] = made;
	rs_leave(s, 1);
	return error ? wrong(error) : (off_t)made.told.offset;
}

EXPORT int riounmap(int number, void *at, size_t bytes)
{
	struct rsock *s = rs_enter(number);
	if (!s)
		return -1;
	int error = EINVAL;
	for (int i = 0; i < MOST_MAPS && error; i++) {
		struct own_map *each = &s->own[i];
		if (!each->told.bytes || each->told.address != (uintptr_t)at || each->told.bytes != bytes)
			continue;
		error = 0;
		if (each->mr && !await_room(s, 1, 1))
			tell_of(s, UNMAPPED, &each->told);
		if (each->mr)
			ibv_dereg_mr(each->mr);
		*each = (struct own_map){{0}, NULL};
	}
	rs_leave(s, 1);
	return wrong(error);
}

EXPORT size_t riowrite(int number, const void *from, size_t bytes, off_t offset, int flags)
{
	struct rsock *s = rs_enter(number);
	size_t sent = 0;
	int error = 0;
	if (!s)
		return (size_t)-1;
	int waits = !s->is_nonblocking && !(flags & MSG_DONTWAIT);
	while (sent < bytes && !(error = await_room(s, 0, waits))) {
		uint64_t at = (uint64_t)offset + sent;
		struct map *map = s->theirs, *end = map + MOST_MAPS;
		while (map < end && (at < map->offset || at - map->offset >= map->bytes))
			map++;
		if (map == end) {
			error = EFAULT; /* the peer has mapped nothing there */
			break;
		}
		uint64_t rest = map->bytes - (at - map->offset);
		size_t part = bytes - sent < SLOT ? bytes - sent : SLOT;
		part = part < rest ? part : rest;
		memcpy(rs_next_place(s), (const uint8_t *)from + sent, part);
		rs_post(s, (struct ibv_send_wr){.opcode = WRITE,
			.wr.rdma = {map->address + (at - map->offset), (uint32_t)map->key}}, (uint32_t)part);
		sent += part;
	}
	rs_leave(s, 1);
	return sent || !error ? sent : (size_t)wrong(error);
}

/* ---- Many at once ---- */

static short look(struct rsock *s)
{
	int found = 0, can_read = s->first < s->last || s->has_ended || s->cannot_receive || s->is_shut_in;
	if (s->state == LISTENING)
		return rs_now_at(s->events->fd);
	if (s->state == FRESH)
		return POLLOUT | POLLHUP | (s->error ? POLLERR : 0);
	if (can_read)
		found |= POLLIN | POLLRDNORM;
	if (s->cannot_send || s->is_shut_out ||
	    (s->state == UP && s->credits && s->sent - s->done < s->sends - SPARE))
		found |= POLLOUT | POLLWRNORM;
	if (s->has_ended || s->cannot_receive)
		found |= POLLRDHUP | (s->is_shut_out || s->cannot_send ? POLLHUP : 0) | (s->has_ended ? 0 : POLLERR);
	return (short)found;
}

/* Which of them are ready, by their queues; `real` has what the kernel said of the others, then
 * what to sleep on. */
static int look_at_all(struct pollfd *at, nfds_t count, struct pollfd *real, nfds_t *reals)
{
	struct pollfd *first = real;
	int ready = 0;
	for (nfds_t i = 0; i < count; i++) {
		struct rsock *s = rs_is_one(at[i].fd) ? rs_enter(at[i].fd) : NULL;
		if (!s) {
			at[i].revents = real->fd == at[i].fd ? real->revents : 0;
			*real++ = (struct pollfd){.fd = at[i].fd, .events = at[i].events};
		} else {
			if (!s->is_awaited)
				rs_drain(s);
			real += rs_arm(s, real);
			at[i].revents = look(s) & (at[i].events | POLLERR | POLLHUP);
			rs_leave(s, 1);
		}
		ready += at[i].revents != 0;
	}
	*reals = (nfds_t)(real - first);
	return ready;
}

EXPORT int rpoll(struct pollfd *at, nfds_t count, int timeout_ms)
{
	struct pollfd *real = calloc(2 * count + 1, sizeof *real);
	int64_t until = timeout_ms < 0 ? INT64_MAX : rs_now_ms() + timeout_ms;
	nfds_t reals;
	if (!real)
		return wrong(ENOMEM);
	for (int is_first = 1;; is_first = 0) {
		int ready = look_at_all(at, count, real, &reals);
		int64_t rest = until - rs_now_ms(), nap = ready || rest < 0 ? 0 : rest < NAP_MS ? rest : NAP_MS;
		/* Naps are short, as another thread may take what this one sleeps for. */
		int is_done = !is_first && (ready || rest <= 0);
		if (!is_done && poll(real, reals, (int)nap) >= 0)
			continue;
		int error = errno;
		free(real);
		errno = error;
		return is_done ? ready : -1;
	}
}

EXPORT int rselect(int count, fd_set *in, fd_set *out, fd_set *special, struct timeval *timeout)
{
	fd_set *sets[] = {in, out, special};
	static const short asked[] = {POLLIN, POLLOUT, POLLPRI}, told[] = {POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR, POLLPRI};
	struct pollfd at[FD_SETSIZE];
	nfds_t used = 0;
	int ready = 0;
	if (count < 0 || count > FD_SETSIZE)
		return wrong(EINVAL);
	for (int number = 0; number < count; number++) {
		struct pollfd *each = &at[used];
		*each = (struct pollfd){.fd = number};
		for (int kind = 0; kind < 3; kind++)
			if (sets[kind] && FD_ISSET(number, sets[kind]))
				each->events |= asked[kind];
		used += each->events != 0;
	}
	if (rpoll(at, used, timeout ? (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000) : -1) < 0)
		return -1;
	for (nfds_t i = 0; i < used; i++) {
		if (at[i].revents & POLLNVAL)
			return wrong(EBADF);
		for (int kind = 0; kind < 3; kind++) {
			if (!(at[i].events & asked[kind]))
				continue;
			if (at[i].revents & told[kind])
				ready++;
			else
				FD_CLR(at[i].fd, sets[kind]);
		}
	}
	return ready;
}

