/* A parent that forks while it has objects: each of both goes on with a device of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi.h"

struct ibv_device **ibv_get_device_list(int *);
struct ibv_context *ibv_open_device(struct ibv_device *);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *, void *, size_t, int);
int ibv_dereg_mr(struct ibv_mr *);
int ibv_dealloc_pd(struct ibv_pd *);
int ibv_query_gid(struct ibv_context *, uint8_t, int, union ibv_gid *);

static char buffer[10000];

static struct ibv_mr *registered(int *last)
{
	struct ibv_context *context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	union ibv_gid gid = {{0}};
	if (context)
		ibv_query_gid(context, 1, 1, &gid);
	*last = gid.raw[15];
	return pd ? ibv_reg_mr(pd, buffer, sizeof buffer, 1) : NULL;
}

int main(void)
{
	int mine, its, status;
	struct ibv_mr *mr = registered(&mine);
	if (!mr)
		return 1;
	buffer[0] = 1;
	pid_t child = fork();
	if (child == 0) {
		if (ibv_dereg_mr(mr) == 0) /* its parent's, of which it has no part */
			_exit(2);
		struct ibv_mr *own = registered(&its);
		_exit(!own || its == mine || ibv_dereg_mr(own) ? 3 : 0);
	}
	waitpid(child, &status, 0);
	if (status)
		return WEXITSTATUS(status) + 10;
	struct ibv_pd *pd = mr->pd;
	return ibv_dereg_mr(mr) || ibv_dealloc_pd(pd) ? 4 : 0;
}
