// SPDX-License-Identifier: MIT
/* What errors mean, in words. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <arax/arax.h>

#include "error.h"

static _Thread_local char text[896];

static const struct {
	int error;
	const char *text;
} meanings[] = {
	{ 0, "success" },
	{ ENOTTY, "this Arax doesn't know the call" },
	{ EINVAL, "an argument that can never be right" },
	{ E2BIG, "too big, or made for a newer Arax" },
	{ EOPNOTSUPP, "this Arax, link or backend doesn't support it" },
	{ EBADF, "no such handle or file descriptor" },
	{ EDQUOT, "over a limit of the tenant or user" },
	{ ENOSPC, "a table of fixed size is full" },
	{ ENOTCONN, "the daemon is not there" },
	{ EUSERS, "there are as many connections as one user, or all together, may have" },
	{ ESTALE, "a handle of something that is gone" },
	{ EOWNERDEAD, "the daemon died while it held the task" },
	{ EPERM, "not allowed, or a context that another process opened" },
	{ EPIPE, "the context is dead: killed, or its rings were corrupt" },
	{ ENXIO, "the context was opened without rings" },
	{ ECANCELED, "canceled, or depended on a task that failed" },
	{ ETIMEDOUT, "the deadline passed" },
	{ EAGAIN, "no room now" },
	{ EBUSY, "in use" },
	{ EDEADLK, "a call of this thread that has not returned yet goes on with it" },
	{ ENOENT, "no such thing" },
	{ ENODEV, "the device was lost when the task may have begun, or none is left for it: submit it again, or let it say ARAX_TASK_IDEMPOTENT" },
	{ ENOMEM, "out of memory" },
	{ ENOEXEC, "no device has this kernel, the context has not brought it, or its image can't be loaded" },
	{ EIO, "bytes that were lost with a device or daemon, or a device that failed" },
	{ EMFILE, "no room for another file descriptor: raise this program's limit (ulimit -n), or araxd's users have all that it gives them together" },
};

#define CUT	"..."

int error_set(int err, const char *format, ...)
{
	const char *meaning = arax_strerror(err);
	const size_t room = sizeof(text) - sizeof(": ") - strlen(meaning);
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, room + 1, format, args);
	va_end(args);
	/* A compiler's words may be many. */
	if (n > (int)room) {
		n = (int)room;
		memcpy(text + n - strlen(CUT), CUT, strlen(CUT));
	}
	n = n < 0 ? 0 : n;
	snprintf(text + n, sizeof(text) - (size_t)n, ": %s", meaning);
	return err;
}

const char *arax_strerror(int error)
{
	const char *s;
	size_t i;

	/* The least int has no opposite. */
	if (error < 0)
		error = error < -INT_MAX ? INT_MAX : -error;
	for (i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (meanings[i].error == error)
			return meanings[i].text;
	}
	s = strerrordesc_np(error);
	return s ? s : "unknown error";
}

const char *arax_error_text(void)
{
	return text;
}
