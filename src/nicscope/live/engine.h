/* What the two files of the machine's side share. */
#ifndef NICSCOPE_LIVE_ENGINE_H
#define NICSCOPE_LIVE_ENGINE_H

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

int64_t owner_of(int64_t n); /* the process whose memory node n stands for, or 0 */
void forget_what_was_read(void); /* a program has posted something, so it may have changed */
int64_t write_all_behind(void); /* what has arrived, to the processes that it is for; how many writes */
EXPORT int64_t live_write(int64_t pid, int64_t address, const void *bytes, int64_t count);

#endif
