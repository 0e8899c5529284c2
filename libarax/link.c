// SPDX-License-Identifier: MIT
/* Which link, and what both must know of the calls. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "link.h"

#define CALL(nr, type, ...)	[nr] = { sizeof(struct type), __VA_ARGS__ }
#define IN(type, field)		.fd_in = { offsetof(struct type, field) }
#define OUT(type, field)	.fd_out = offsetof(struct type, field)

static const struct link_call calls[] = {
	CALL(ARAX_NR_INFO, arax_info),
	CALL(ARAX_NR_CONTEXT_INIT, arax_context_init,
	     .fd_in = { offsetof(struct arax_context_init, ring_fd),
			offsetof(struct arax_context_init, wake_fd) },
	     OUT(arax_context_init, doorbell_fd)),
	CALL(ARAX_NR_SUBMIT, arax_submit),
	CALL(ARAX_NR_WAIT, arax_wait),
	CALL(ARAX_NR_CANCEL, arax_cancel),
	CALL(ARAX_NR_TASK_WHY, arax_task_why),
	CALL(ARAX_NR_BUFFER_CREATE, arax_buffer_create, IN(arax_buffer_create, fd)),
	CALL(ARAX_NR_BUFFER_IMPORT, arax_buffer_import, IN(arax_buffer_import, fd)),
	CALL(ARAX_NR_BUFFER_EXPORT, arax_buffer_export, OUT(arax_buffer_export, fd)),
	CALL(ARAX_NR_BUFFER_DESTROY, arax_handle),
	CALL(ARAX_NR_BUFFER_QUERY, arax_buffer_query),
	CALL(ARAX_NR_BUFFER_REVOKE, arax_handle),
	CALL(ARAX_NR_QUEUE_CREATE, arax_queue_create),
	CALL(ARAX_NR_QUEUE_DESTROY, arax_handle),
	CALL(ARAX_NR_TIMELINE_CREATE, arax_timeline_create),
	CALL(ARAX_NR_TIMELINE_DESTROY, arax_handle),
	CALL(ARAX_NR_TIMELINE_QUERY, arax_timeline_point),
	CALL(ARAX_NR_TIMELINE_ADVANCE, arax_timeline_point),
	CALL(ARAX_NR_TIMELINE_EVENTFD, arax_timeline_eventfd, IN(arax_timeline_eventfd, fd)),
	CALL(ARAX_NR_TIMELINE_EXPORT, arax_timeline_share, OUT(arax_timeline_share, fd)),
	CALL(ARAX_NR_TIMELINE_IMPORT, arax_timeline_share, IN(arax_timeline_share, fd)),
	CALL(ARAX_NR_KERNEL_LOOKUP, arax_kernel_lookup),
	CALL(ARAX_NR_DEVICE_QUERY, arax_device),
	CALL(ARAX_NR_USAGE_QUERY, arax_usage),
	CALL(ARAX_NR_LIMIT_SET, arax_limit, IN(arax_limit, cgroup_fd)),
	CALL(ARAX_NR_TENANT_QUERY, arax_tenant, IN(arax_tenant, cgroup_fd)),
	CALL(ARAX_NR_CONTEXT_QUERY, arax_context),
	CALL(ARAX_NR_CONTEXT_KILL, arax_kill),
};

const struct link_call *link_call_find(unsigned int nr)
{
	if (nr >= sizeof(calls) / sizeof(calls[0]) || !calls[nr].size)
		return NULL;
	return &calls[nr];
}

static const char *kernel_path(bool admin)
{
	return admin ? LINK_ADMIN_DEVICE : LINK_SYSTEM_DEVICE;
}

static int open_named(struct link **l, const char *want, bool admin)
{
	char path[4096];	/* what is too long is shown as it is, if it can be */
	const char *dir;
	struct stat st;
	int ret;

	if (!strcmp(want, "kernel"))
		return link_kernel_open(l, kernel_path(admin));
	/* A variable that isn't set, most likely. */
	if (!strcmp(want, "broker:"))
		return error_set(-EINVAL, "link \"%s\": no path behind the colon", want);
	/* Who names a socket vouches for whoever listens there. */
	if (!strncmp(want, "broker:", 7))
		return link_broker_open(l, want + 7, 0, true);
	if (strcmp(want, "broker"))
		return error_set(-EINVAL, "link \"%s\": want kernel, broker or broker:PATH", want);

	/* A stale socket, its daemon gone, shall not hide a private one. */
	if (!access(LINK_SYSTEM_SOCKET, F_OK)) {
		ret = link_broker_open(l, LINK_SYSTEM_SOCKET, 0, false);
		if (ret != -ECONNREFUSED)
			return ret;
	}
	dir = secure_getenv("XDG_RUNTIME_DIR");
	if (!dir)
		return error_set(-ENOENT, "no socket at %s and XDG_RUNTIME_DIR is not set (" ERROR_NO_DAEMON ")",
				 LINK_SYSTEM_SOCKET);
	/* Of another user's, as behind su(1), nobody can have a socket there for this one. */
	if ((access(dir, X_OK) && errno == EACCES) || (!stat(dir, &st) && st.st_uid != getuid()))
		return error_set(-ENOENT, "no socket at %s, and XDG_RUNTIME_DIR (%s) is not this user's (" ERROR_NO_DAEMON ")",
				 LINK_SYSTEM_SOCKET, dir);
	snprintf(path, sizeof(path), "%s/%s", dir, LINK_USER_SOCKET);
	return link_broker_open(l, path, getuid(), false);
}

/* There is one, and that no daemon serves a socket as well is not what is wrong. */
static __attribute__((cold)) int not_permitted(int err, const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return error_set(err, "opening %s", path);
	if (!access(path, R_OK | W_OK))
		return error_set(err, "opening %s, whose mode (%04o) is not what forbids it: a container's rules for devices do, or a security module's",
				 path, st.st_mode & 07777);
	if (!(st.st_mode & 060))
		return error_set(err, "opening %s, whose mode is %04o and whose owner is uid %u: have root permit it (udev's rule for arax gives it 0666)",
				 path, st.st_mode & 07777, st.st_uid);
	return error_set(err, "opening %s, whose mode is %04o and whose group is gid %u: have root add you to that group (usermod -aG), or permit it to all (udev's rule for arax gives it 0666)",
			 path, st.st_mode & 07777, st.st_gid);
}

int link_open(struct link **l, const char *want, bool admin)
{
	const char *env = secure_getenv("ARAX_LINK");
	int ret, err = 0;

	if (env && *env)
		want = env;
	if (want)
		return open_named(l, want, admin);

	if (!access(LINK_SYSTEM_DEVICE, F_OK)) {
		err = link_kernel_open(l, kernel_path(admin));
		if (!err || admin)
			return err;
	}
	ret = open_named(l, "broker", admin);
	if ((ret == -ENOENT || ret == -ECONNREFUSED) && (err == -EACCES || err == -EPERM))
		return not_permitted(err, LINK_SYSTEM_DEVICE);
	return ret;
}
