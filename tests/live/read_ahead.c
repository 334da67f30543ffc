/* This process's own memory, read as the machine reads a program's.
 *
 * read_ahead STEPS: "own BEGIN END" and "answer BEGIN END" read for a request of the program's own and
 * for a peer's; "change" has all bytes be others, "arrive BEGIN END" some, as a message does; "post" is
 * what a program does between; "double" has the frames of the second half stand for the first half's
 * pages. Prints of each read the bytes' age in changes, oldest and newest, and the system calls so far. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

static ssize_t counted(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long);
#define process_vm_readv counted
#include "engine.c"
#undef process_vm_readv

enum { LONGEST = 1 << 22, FRAMES = LONGEST / PAGE };
static uint8_t frames[LONGEST] __attribute__((aligned(4096)));
static uint8_t buffer[LONGEST] __attribute__((aligned(4096)));
static int64_t pages[FRAMES];
static int calls;

static ssize_t counted(pid_t pid, const struct iovec *to, unsigned long count, const struct iovec *from,
		       unsigned long pieces, unsigned long flags)
{
	calls++;
	return process_vm_readv(pid, to, count, from, pieces, flags);
}

int main(int count, char **words)
{
	uint8_t changes = 0;
	for (int i = 0; i < FRAMES; i++)
		pages[i] = (int64_t)(uintptr_t)buffer + (int64_t)i * PAGE;
	live_place(0, frames, pages, FRAMES);
	live_own(0, getpid());
	for (int i = 1; i < count; i++) {
		if (!strcmp(words[i], "change")) {
			memset(buffer, ++changes, sizeof buffer);
		} else if (!strcmp(words[i], "post")) {
			forget_what_was_read();
		} else if (!strcmp(words[i], "double")) {
			memcpy(pages + FRAMES / 2, pages, sizeof pages / 2);
		} else if (!strcmp(words[i], "arrive")) {
			int64_t begin = atoll(words[++i]), end = atoll(words[++i]);
			memset(frames + begin, ++changes, (size_t)(end - begin));
			store(0, begin, end - begin);
			write_all_behind();
		} else {
			int is_answer = !strcmp(words[i], "answer");
			int64_t result, begin = atoll(words[++i]), end = atoll(words[++i]);
			int oldest = 0, newest = changes;
			live_load(&result, NULL, NULL, 0, begin, end - begin, is_answer);
			for (int64_t at = begin; at < end; at++) {
				int age = changes - frames[at];
				oldest = age > oldest ? age : oldest;
				newest = age < newest ? age : newest;
			}
			printf("%d %d %d\n", oldest, newest, calls);
		}
	}
	return failures != 0;
}
