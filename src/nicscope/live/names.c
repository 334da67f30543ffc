/* Names of things, what the library reads of the system, and what it does not support: calls that
 * only drivers make, which libraries of makers are bound to, and calls of what no device here has. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "live.h"

static const char *named(const char *const *names, size_t count, int value)
{
	return value >= 0 && (size_t)value < count && names[value] ? names[value] : "unknown";
}
#define NAMED(names, value) named(names, sizeof(names) / sizeof(*names), value)

EXPORT const char *ibv_wc_status_str(int status)
{
	static const char *const names[] = {"success", "local length error", "local QP operation error",
		"local EE context operation error", "local protection error", "Work Request Flushed Error",
		"memory management operation error", "bad response error", "local access error",
		"remote invalid request error", "remote access error", "remote operation error",
		"transport retry counter exceeded", "RNR retry counter exceeded", "local RDD violation error",
		"remote invalid RD request", "aborted error", "invalid EE context number",
		"invalid EE context state", "fatal error", "response timeout error", "general error"};
	return NAMED(names, status);
}

EXPORT const char *ibv_event_type_str(int event)
{
	static const char *const names[] = {"CQ error", "local work queue catastrophic error",
		"invalid request local work queue error", "local access violation work queue error",
		"communication established", "send queue drained", "path migrated",
		"path migration request error", "local catastrophic error", "port active", "port error",
		"LID change", "P_Key change", "SM change", "SRQ catastrophic error", "SRQ limit reached",
		"last WQE reached", "client reregistration", "GID table change"};
	return NAMED(names, event);
}

EXPORT const char *ibv_node_type_str(int type)
{
	static const char *const names[] = {"unknown", "InfiniBand channel adapter", "InfiniBand switch",
		"InfiniBand router", "iWARP NIC", "usNIC", "usNIC UDP", "unspecified"};
	return NAMED(names, type);
}

EXPORT const char *ibv_port_state_str(int state)
{
	static const char *const names[] = {"no state change (NOP)", "down", "init", "armed", "active", "active defer"};
	return NAMED(names, state);
}

/* Rates, as multiples of 2.5 Gbit/s and in Mbit/s. */
static const struct { int rate, mult, mbps; } rates[] = {
	{2, 1, 2500}, {5, 2, 5000}, {3, 4, 10000}, {6, 8, 20000}, {4, 12, 30000}, {7, 16, 40000},
	{8, 24, 60000}, {9, 32, 80000}, {10, 48, 120000}, {11, 6, 14062}, {12, 22, 56250}, {13, 45, 112500},
	{14, 67, 168750}, {15, 10, 25781}, {16, 41, 103125}, {17, 80, 206250}, {18, 120, 309375},
	{19, 11, 28125}, {20, 20, 53125}, {21, 160, 425000}, {22, 240, 637500}, {23, 320, 850000},
	{24, 480, 1275000}};
#define CONVERT(name, from, to, otherwise)                                              \
	EXPORT int name(int value)                                                      \
	{                                                                               \
		for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)               \
			if (rates[i].from == value)                                     \
				return rates[i].to;                                     \
		return otherwise;                                                       \
	}
CONVERT(ibv_rate_to_mult, rate, mult, -1)
CONVERT(mult_to_ibv_rate, mult, rate, 0)
CONVERT(ibv_rate_to_mbps, rate, mbps, -1)
CONVERT(mbps_to_ibv_rate, mbps, rate, 0)

EXPORT const char *ibv_get_sysfs_path(void) { return "/sys"; }

EXPORT int ibv_read_sysfs_file(const char *folder, const char *file, char *to, size_t size)
{
	char path[IBV_SYSFS_PATH_MAX * 2];
	if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path)
		return -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t got = read(fd, to, size);
	close(fd);
	if (got > 0 && to[got - 1] == '\n')
		to[--got] = 0;
	else if (got >= 0 && (size_t)got < size)
		to[got] = 0;
	return (int)got;
}

/* The machine reads memory as it is: a fork takes nothing away from it. */
EXPORT int ibv_fork_init(void) { return 0; }
EXPORT int ibv_is_fork_initialized(void) { return 2; }
EXPORT int ibv_dontfork_range(void *base, size_t size) { (void)base, (void)size; return 0; }
EXPORT int ibv_dofork_range(void *base, size_t size) { (void)base, (void)size; return 0; }

/* No option of enhanced connection establishment is known: none is set. */
struct ibv_ece { uint32_t vendor_id, options, comp_mask; };
EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	*ece = (struct ibv_ece){0, 0, 0};
	return 0;
}
EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	return ece->vendor_id || ece->options ? EOPNOTSUPP : 0;
}

#define WITHOUT(name) EXPORT int name(void); EXPORT int name(void) { return EOPNOTSUPP; }
#define WITHOUT_OBJECT(name) EXPORT void *name(void); EXPORT void *name(void) { errno = EOPNOTSUPP; return NULL; }
#define QUIETLY(name) EXPORT void name(void); EXPORT void name(void) { }
#include "unsupported.h"
