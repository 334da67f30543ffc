/* Preloaded into programs of the live device: the files that a kernel shows of a card, which some
 * libraries read past libibverbs.  A path of them leads to a file of the same name in a folder that
 * FILES names; the card's own device file, which is only looked at, to /dev/null. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
static const char FILES[] = "NICSCOPE_LIVE_FILES", DEVICE[] = "/dev/infiniband/nicscope0";
static const char *const SHOWN[] = {"/sys/class/infiniband/", "/sys/class/infiniband_verbs/"};

/* Where a path leads: itself, or into `room`. */
static const char *led(const char *path, char room[static 4096])
{
	if (!path || path[0] != '/')
		return path;
	if (!strcmp(path, DEVICE))
		return "/dev/null";
	for (size_t i = 0; i < sizeof SHOWN / sizeof *SHOWN; i++) {
		size_t length = strlen(SHOWN[i]);
		/* The folder itself, with or without its slash. */
		if (strncmp(path, SHOWN[i], length - 1) || (path[length - 1] && path[length - 1] != '/'))
			continue;
		const char *folder = getenv(FILES);
		if (folder && snprintf(room, 4096, "%s%s", folder, path) < 4096)
			return room;
	}
	return path;
}

#define NEXT(name)                                                                                     \
	static __typeof__(name) *next;                                                                 \
	char room[4096];                                                                               \
	if (!next)                                                                                     \
		next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);

static int mode_of(int flags, va_list rest)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;
}

#define OPENS(name)                                                                                    \
	EXPORT int name(const char *path, int flags, ...)                                              \
	{                                                                                              \
		NEXT(name)                                                                             \
		va_list rest;                                                                          \
		va_start(rest, flags);                                                                 \
		int mode = mode_of(flags, rest);                                                       \
		va_end(rest);                                                                          \
		return next(led(path, room), flags, mode);                                             \
	}
#define OPENS_AT(name)                                                                                 \
	EXPORT int name(int folder, const char *path, int flags, ...)                                  \
	{                                                                                              \
		NEXT(name)                                                                             \
		va_list rest;                                                                          \
		va_start(rest, flags);                                                                 \
		int mode = mode_of(flags, rest);                                                       \
		va_end(rest);                                                                          \
		return next(folder, led(path, room), flags, mode);                                     \
	}
/* A call whose first argument is the path. */
#define TAKES(type, name, parameters, ...)                                                             \
	EXPORT type name parameters                                                                    \
	{                                                                                              \
		NEXT(name)                                                                             \
		return next(led(path, room)__VA_ARGS__);                                               \
	}

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
TAKES(FILE *, fopen, (const char *restrict path, const char *restrict mode), , mode)
TAKES(FILE *, fopen64, (const char *restrict path, const char *restrict mode), , mode)
TAKES(int, access, (const char *path, int mode), , mode)
TAKES(int, stat, (const char *restrict path, struct stat *restrict found), , found)
TAKES(int, stat64, (const char *restrict path, struct stat64 *restrict found), , found)
TAKES(int, lstat, (const char *restrict path, struct stat *restrict found), , found)
TAKES(int, lstat64, (const char *restrict path, struct stat64 *restrict found), , found)
EXPORT int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict found)
{
	NEXT(statx)
	return next(folder, led(path, room), flags, mask, found);
}
TAKES(DIR *, opendir, (const char *path), )

/* Of programs that were built with a C library before 2.33, whose headers have stat call these. */
#define TAKES_VERSION(name, kind)                                                                      \
	EXPORT int name(int version, const char *path, struct kind *found);                            \
	EXPORT int name(int version, const char *path, struct kind *found)                             \
	{                                                                                              \
		NEXT(name)                                                                             \
		return next(version, led(path, room), found);                                          \
	}
TAKES_VERSION(__xstat, stat)
TAKES_VERSION(__xstat64, stat64)
TAKES_VERSION(__lxstat, stat)
TAKES_VERSION(__lxstat64, stat64)
#define TAKES_VERSION_AT(name, kind)                                                                   \
	EXPORT int name(int version, int folder, const char *path, struct kind *found, int flags);     \
	EXPORT int name(int version, int folder, const char *path, struct kind *found, int flags)      \
	{                                                                                              \
		NEXT(name)                                                                             \
		return next(version, folder, led(path, room), found, flags);                           \
	}
TAKES_VERSION_AT(__fxstatat, stat)
TAKES_VERSION_AT(__fxstatat64, stat64)
