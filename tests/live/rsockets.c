/* Both ends of rsockets in one process, or one end of two: says what is not as sockets have it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

int rsocket(int, int, int), rbind(int, const struct sockaddr *, socklen_t), rlisten(int, int);
int raccept(int, struct sockaddr *, socklen_t *), rconnect(int, const struct sockaddr *, socklen_t);
int rshutdown(int, int), rclose(int), rpoll(struct pollfd *, nfds_t, int), rfcntl(int, int, ...);
int rselect(int, fd_set *, fd_set *, fd_set *, struct timeval *);
ssize_t rrecv(int, void *, size_t, int), rsend(int, const void *, size_t, int);
ssize_t rreadv(int, const struct iovec *, int), rwritev(int, const struct iovec *, int);
int rgetpeername(int, struct sockaddr *, socklen_t *), rgetsockname(int, struct sockaddr *, socklen_t *);
int rsetsockopt(int, int, int, const void *, socklen_t), rgetsockopt(int, int, int, void *, socklen_t *);
off_t riomap(int, void *, size_t, int, int, off_t);
int riounmap(int, void *, size_t);
size_t riowrite(int, const void *, size_t, off_t, int);
enum { SOL_RDMA = 0x10000, MAPS = 3 };

#define HOLDS(what) do { if (!(what)) { printf("%d: %s (errno %d)\n", __LINE__, #what, errno); fflush(stdout); _exit(1); } } while (0)
#define FAILS(call, number) do { errno = 0; HOLDS((call) == -1 && errno == (number)); } while (0)

static struct sockaddr_in at = {.sin_family = AF_INET};
static const struct sockaddr *const place = (const struct sockaddr *)&at;

static int listening(void)
{
	struct sockaddr_in bound;
	socklen_t size = sizeof bound;
	int one = 1, made = rsocket(AF_INET, SOCK_STREAM, 0);
	HOLDS(made >= 0 && !rsetsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
	HOLDS(!rbind(made, place, sizeof at) && !rlisten(made, 8));
	HOLDS(!rgetsockname(made, (struct sockaddr *)&bound, &size) && bound.sin_port);
	at.sin_port = bound.sin_port;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return made;
}

/* Both ends of a connection: one thread makes them, so the connecting one does not block. */
static void connect_two(int listener, int *first, int *second, int size)
{
	*first = rsocket(AF_INET, SOCK_STREAM, 0);
	HOLDS(!rsetsockopt(*first, SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
	HOLDS(!rsetsockopt(*first, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
	HOLDS(!rfcntl(*first, F_SETFL, O_NONBLOCK) && rfcntl(*first, F_GETFL) & O_NONBLOCK);
	FAILS(rconnect(*first, place, sizeof at), EINPROGRESS);
	HOLDS((*second = raccept(listener, NULL, NULL)) >= 0);
	struct pollfd up = {.fd = *first, .events = POLLOUT};
	HOLDS(rpoll(&up, 1, 60000) == 1 && up.revents == POLLOUT);
	int error = -1;
	socklen_t bytes = sizeof error;
	HOLDS(!rgetsockopt(*first, SOL_SOCKET, SO_ERROR, &error, &bytes) && !error);
	HOLDS(!rfcntl(*first, F_SETFL, 0));
}

/* ---- Bytes in both directions at once, each its place's ---- */

struct part { int file; uint64_t bytes, seed; };

static uint8_t byte_at(uint64_t seed, uint64_t place_of_it)
{
	uint64_t mixed = (place_of_it + seed * 7919) * 0x9e3779b97f4a7c15u;
	return (uint8_t)(mixed >> 56);
}

static void *sends(void *told)
{
	struct part *part = told;
	uint8_t *held = malloc(50000);
	unsigned drawn = (unsigned)part->seed;
	for (uint64_t done = 0; done < part->bytes;) {
		uint64_t size = (uint64_t)rand_r(&drawn) % (rand_r(&drawn) % 2 ? 49999 : 99) + 1;
		size = size < part->bytes - done ? size : part->bytes - done;
		for (uint64_t i = 0; i < size; i++)
			held[i] = byte_at(part->seed, done + i);
		HOLDS(rsend(part->file, held, size, 0) == (ssize_t)size);
		done += size;
	}
	HOLDS(!rshutdown(part->file, SHUT_WR));
	FAILS(rsend(part->file, held, 1, 0), EPIPE);
	free(held);
	return NULL;
}

static void *receives(void *told)
{
	struct part *part = told;
	uint8_t *held = malloc(50000);
	unsigned drawn = (unsigned)part->seed + 1;
	uint64_t done = 0;
	for (ssize_t got; (got = rrecv(part->file, held, (size_t)rand_r(&drawn) % 49999 + 1, 0)); done += (uint64_t)got) {
		HOLDS(got > 0);
		for (ssize_t i = 0; i < got; i++)
			HOLDS(held[i] == byte_at(part->seed, done + (uint64_t)i));
	}
	HOLDS(done == part->bytes);
	free(held);
	return NULL;
}

static void both_ways(uint64_t bytes)
{
	int listener = listening(), ends[2];
	pthread_t threads[4];
	connect_two(listener, &ends[0], &ends[1], 8 * 16384);
	struct part parts[] = {{ends[0], bytes, 1}, {ends[1], bytes, 1}, {ends[1], bytes, 2}, {ends[0], bytes, 2}};
	for (int i = 0; i < 4; i++)
		HOLDS(!pthread_create(&threads[i], NULL, i % 2 ? receives : sends, &parts[i]));
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	HOLDS(!rclose(ends[0]) && !rclose(ends[1]) && !rclose(listener));
}

/* ---- What calls answer ---- */

static short asked(int file, short events, int timeout_ms)
{
	struct pollfd of = {.fd = file, .events = events};
	return rpoll(&of, 1, timeout_ms) > 0 ? of.revents : 0;
}

static void refusals(void)
{
	int fresh = rsocket(AF_INET, SOCK_STREAM, 0), ends[2], error;
	socklen_t size = sizeof error;
	char byte = 0;
	HOLDS(!pipe(ends));
	FAILS(rsocket(AF_INET, SOCK_DGRAM, 0), EOPNOTSUPP);
	FAILS(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
	FAILS(rsend(ends[1], &byte, 1, 0), EBADF);
	FAILS(rclose(ends[1]), EBADF);
	FAILS(rrecv(-1, &byte, 1, 0), EBADF);
	FAILS(rrecv(fresh, &byte, 1, 0), ENOTCONN);
	FAILS(rsend(fresh, &byte, 1, 0), ENOTCONN);
	FAILS(rshutdown(fresh, SHUT_WR), ENOTCONN);
	FAILS(rgetpeername(fresh, (struct sockaddr *)&(struct sockaddr_in){0}, &(socklen_t){16}), ENOTCONN);
	FAILS(raccept(fresh, NULL, NULL), EINVAL);
	FAILS(rsetsockopt(fresh, SOL_SOCKET, 9999, &error, size), ENOPROTOOPT);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	at.sin_port = htons(9);
	FAILS(rconnect(fresh, place, sizeof at), ECONNREFUSED);
	HOLDS(!rfcntl(fresh, F_SETFL, O_NONBLOCK));
	FAILS(rconnect(fresh, place, sizeof at), EINPROGRESS);
	HOLDS(asked(fresh, POLLOUT, 60000) & POLLERR);
	HOLDS(!rgetsockopt(fresh, SOL_SOCKET, SO_ERROR, &error, &size) && error == ECONNREFUSED);
	HOLDS(!rclose(fresh));
	FAILS(rclose(fresh), EBADF);
	close(ends[0]);
	close(ends[1]);
	at = (struct sockaddr_in){.sin_family = AF_INET};
}

static void answers(void)
{
	int listener, one, two, ends[2];
	char held[8] = "";
	refusals();
	listener = listening();
	HOLDS(!rfcntl(listener, F_SETFL, O_NONBLOCK));
	FAILS(raccept(listener, NULL, NULL), EAGAIN);
	HOLDS(!asked(listener, POLLIN, 0) && !rfcntl(listener, F_SETFL, 0));
	connect_two(listener, &one, &two, 4 * 16384);
	FAILS(rconnect(one, place, sizeof at), EISCONN);
	FAILS(rrecv(one, held, 1, MSG_DONTWAIT), EAGAIN);
	HOLDS(!asked(one, POLLIN, 20) && asked(one, POLLIN | POLLOUT, 20) == POLLOUT);

	HOLDS(rwritev(two, (struct iovec[]){{"ab", 2}, {"", 0}, {"cde", 3}}, 3) == 5);
	HOLDS(asked(one, POLLIN, 60000) == POLLIN);
	HOLDS(rrecv(one, held, 8, MSG_PEEK) == 5 && !memcmp(held, "abcde", 5)); /* one message, as all fits */
	HOLDS(rreadv(one, (struct iovec[]){{held, 1}, {held + 4, 2}}, 2) == 3 && held[0] == 'a' && held[4] == 'b');
	HOLDS(rrecv(one, held, 2, MSG_WAITALL) == 2 && !memcmp(held, "de", 2));

	/* Files of other kinds beside it. */
	HOLDS(!pipe(ends) && write(ends[1], "x", 1) == 1);
	struct pollfd mixed[] = {{.fd = one, .events = POLLIN}, {.fd = -1}, {.fd = ends[0], .events = POLLIN}};
	HOLDS(rpoll(mixed, 3, -1) == 1 && !mixed[0].revents && mixed[2].revents == POLLIN);
	fd_set in;
	FD_ZERO(&in);
	FD_SET(one, &in);
	FD_SET(ends[0], &in);
	HOLDS(rselect(FD_SETSIZE, &in, NULL, NULL, NULL) == 1 && FD_ISSET(ends[0], &in) && !FD_ISSET(one, &in));
	close(ends[0]);
	close(ends[1]);

	/* Who is not read is not sent to without end, and goes on when it is. */
	uint64_t filled = 0, taken = 0;
	char *much = calloc(1, 30000);
	while (asked(one, POLLOUT, 500)) {
		ssize_t sent = rsend(one, much, 30000, MSG_DONTWAIT);
		HOLDS(sent > 0);
		filled += (uint64_t)sent;
	}
	FAILS(rsend(one, much, 1, MSG_DONTWAIT), EAGAIN);
	HOLDS(filled >= 16 * 16384 && filled <= 64 * 16384);
	while (taken < filled) {
		ssize_t got = rrecv(two, much, 30000, 0);
		HOLDS(got > 0);
		taken += (uint64_t)got;
	}
	HOLDS(asked(one, POLLOUT, 60000) == POLLOUT && !asked(two, POLLIN, 20));
	free(much);

	/* An end that closes says all it has sent before. */
	HOLDS(rsend(one, "end", 3, 0) == 3 && !rclose(one));
	HOLDS(rrecv(two, held, 8, MSG_WAITALL) == 3 && !memcmp(held, "end", 3));
	HOLDS(!rrecv(two, held, 8, 0));
	HOLDS(asked(two, POLLIN, 60000) & POLLIN);
	while (rsend(two, "late", 4, 0) == 4)
		usleep(1000);
	HOLDS(errno == EPIPE && asked(two, POLLIN, 0) & POLLHUP);
	HOLDS(!rclose(two) && !rclose(listener));
}

static void regions(void)
{
	int listener = listening(), one, two, maps = 1;
	uint8_t *region = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), from[40000];
	char byte;
	HOLDS(!rsetsockopt(listener, SOL_RDMA, MAPS, &maps, sizeof maps));
	connect_two(listener, &one, &two, 4 * 16384);
	HOLDS(riomap(two, region, 65536, PROT_WRITE, 0, 4096) == 4096);
	FAILS(riomap(two, region, 65536, PROT_WRITE, 0, 0), ENOMEM);
	HOLDS(rsend(two, "m", 1, 0) == 1 && rrecv(one, &byte, 1, 0) == 1);
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = byte_at(3, i);
	HOLDS(riowrite(one, from, sizeof from, 4096 + 17, 0) == sizeof from);
	FAILS((ssize_t)riowrite(one, from, 1, 4095, 0), EFAULT);
	HOLDS(rsend(one, "w", 1, 0) == 1 && rrecv(two, &byte, 1, 0) == 1);
	HOLDS(!region[16] && !memcmp(region + 17, from, sizeof from) && !region[17 + sizeof from]);
	HOLDS(!riounmap(two, region, 65536));
	FAILS(riounmap(two, region, 65536), EINVAL);
	HOLDS(rsend(two, "u", 1, 0) == 1 && rrecv(one, &byte, 1, 0) == 1);
	FAILS((ssize_t)riowrite(one, from, 1, 4096, 0), EFAULT);
	HOLDS(!rclose(one) && !rclose(two) && !rclose(listener));
}

/* Who waits is told that another thread has shut or closed what it waits for. */

struct reader { int file, error; ssize_t answer; };

static void *reads_one(void *told)
{
	struct reader *reader = told;
	char byte;
	reader->answer = rrecv(reader->file, &byte, 1, 0);
	reader->error = errno;
	return NULL;
}

static void shut_while_read(void)
{
	int listener = listening(), one, two;
	pthread_t thread;
	for (int round = 0; round < 3; round++) {
		connect_two(listener, &one, &two, 4 * 16384);
		struct reader reader = {one, 0, -2};
		HOLDS(!pthread_create(&thread, NULL, reads_one, &reader));
		usleep(100000);
		HOLDS(round ? !rshutdown(one, round == 1 ? SHUT_RD : SHUT_RDWR) : !rclose(one));
		pthread_join(thread, NULL);
		HOLDS(!reader.answer || (!round && reader.error == EBADF)); /* too late to wait */
		HOLDS((!round || !rclose(one)) && !rclose(two));
	}
	HOLDS(!rclose(listener));
}

/* All that was sent is there after the end that sent it has closed. */

static void *sends_and_closes(void *told)
{
	struct part *part = told;
	char held[20000] = "";
	for (uint64_t done = 0; done < part->bytes; done += 7000)
		HOLDS(rsend(part->file, held, part->bytes - done < 7000 ? part->bytes - done : 7000, 0) > 0);
	HOLDS(!rclose(part->file));
	return NULL;
}

static void closed_behind_bytes(int rounds)
{
	int listener = listening(), one, two;
	pthread_t thread;
	for (int round = 0; round < rounds; round++) {
		char held[20000];
		uint64_t found = 0;
		ssize_t got;
		connect_two(listener, &one, &two, (round % 2 ? 4 : 32) * 16384);
		struct part part = {round % 3 ? one : two, 1 + (uint64_t)round * 7919 % 200000, 0};
		int other = round % 3 ? two : one;
		HOLDS(!pthread_create(&thread, NULL, sends_and_closes, &part));
		for (; (got = rrecv(other, held, sizeof held, 0)) > 0; found += (uint64_t)got)
			;
		HOLDS(!got && found == part.bytes);
		pthread_join(thread, NULL);
		HOLDS(!rclose(other));
	}
	HOLDS(!rclose(listener));
}

static int open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int found = 0;
	while (readdir(folder))
		found++;
	closedir(folder);
	return found;
}

static void closing(int rounds)
{
	int before = 0;
	for (int round = 0; round < rounds; round++) {
		int listener = listening(), one, two, waiting = rsocket(AF_INET, SOCK_STREAM, 0);
		connect_two(listener, &one, &two, 4 * 16384);
		HOLDS(rsend(two, "x", 1, 0) == 1);
		HOLDS(!rfcntl(waiting, F_SETFL, O_NONBLOCK));
		FAILS(rconnect(waiting, place, sizeof at), EINPROGRESS); /* whom nobody accepts */
		HOLDS(!rclose(round % 2 ? one : two) && !rclose(round % 2 ? two : one) && !rclose(listener));
		HOLDS(asked(waiting, POLLOUT, 60000) & POLLERR && !rclose(waiting));
		at = (struct sockaddr_in){.sin_family = AF_INET};
		before = before ? before : open_files();
	}
	HOLDS(open_files() == before);
	printf("closed\n");
	fflush(stdout);
	getchar();
}

int main(int count, char **words)
{
	const char *how = count > 1 ? words[1] : "";
	int number = count > 2 ? atoi(words[2]) : 0;
	char byte = 0;
	if (!strcmp(how, "both"))
		both_ways((uint64_t)number);
	else if (!strcmp(how, "answers"))
		answers();
	else if (!strcmp(how, "regions"))
		regions();
	else if (!strcmp(how, "behind"))
		closed_behind_bytes(number);
	else if (!strcmp(how, "shut"))
		shut_while_read();
	else if (!strcmp(how, "closing"))
		closing(number);
	if (!strcmp(how, "serve")) { /* one, to whom it says a byte; then neither reads nor ends */
		int listener = listening();
		printf("%d\n", ntohs(at.sin_port));
		fflush(stdout);
		HOLDS(rsend(raccept(listener, NULL, NULL), "x", 1, 0) == 1);
		pause();
	}
	if (!strcmp(how, "reads") || !strcmp(how, "writes")) {
		int made = rsocket(AF_INET, SOCK_STREAM, 0);
		char much[20000] = "";
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		at.sin_port = htons((uint16_t)number);
		HOLDS(!rconnect(made, place, sizeof at) && rrecv(made, &byte, 1, 0) == 1);
		printf("up\n");
		fflush(stdout);
		if (*how == 'r')
			HOLDS(rrecv(made, &byte, 1, 0) == -1);
		while (*how == 'w' && rsend(made, much, sizeof much, 0) > 0)
			;
		printf("%s\n", strerrorname_np(errno));
		HOLDS(asked(made, POLLIN, 1000) & POLLERR && !rclose(made));
	}
	return 0;
}
