// SPDX-License-Identifier: MIT
/*
 * Loading the module fails at one of its nodes, as another device has that name: nobody can have
 * opened the other one, whose file would be of a module that is gone.  Runs in the guest, with both
 * modules loaded; loads them again.
 */
#include <sched.h>
#include <sys/syscall.h>

#include "common.h"

#define TRIES	8	/* in about every other one it is opened, if it can be */

static bool load(const char *ko, const char *params)
{
	int fd = open(ko, O_RDONLY | O_CLOEXEC), err;

	CHECK(fd >= 0);
	err = syscall(SYS_finit_module, fd, params, 0) ? errno : 0;
	close(fd);
	errno = err;
	return !err;
}

/* A test's last files are closed a little after it. */
static void unload(const char *name)
{
	int tries = 600;

	while (syscall(SYS_delete_module, name, O_NONBLOCK) && --tries)
		usleep(100000);
	CHECK(tries);
}

/* Until it is killed, or has one: which it keeps, as its end would be the kernel's. */
static pid_t begin_opener(const char *node, int *opened)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	while (open(node, O_RDWR | O_CLOEXEC) < 0)
		if (errno != ENOENT)
			__atomic_add_fetch(&opened[1], 1, __ATOMIC_RELAXED);
	__atomic_store_n(&opened[0], 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static void fails_at(const char *taken, const char *node)
{
	char params[64];
	int i, *opened;
	pid_t pid;

	opened = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(opened != MAP_FAILED);
	unload("arax");
	unload("namesake");
	snprintf(params, sizeof(params), "name=%s", taken);
	CHECK(load("/lib/arax/namesake.ko", params));
	pid = begin_opener(node, opened);
	for (i = 0; i < TRIES && !__atomic_load_n(&opened[0], __ATOMIC_ACQUIRE); i++)
		/* Newer kernels keep EEXIST for a module that is there, and say EBUSY in its place. */
		CHECK(!load("/lib/arax/arax.ko", "") && (errno == EEXIST || errno == EBUSY));
	CHECK(!opened[0]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("# %s was there, and refused, %d times\n", node, opened[1]);
	unload("namesake");
	CHECK(load("/lib/arax/namesake.ko", ""));
	/* And what was there before is gone: all of it can be had. */
	CHECK(load("/lib/arax/arax.ko", ""));
	close(client_node());
	close(ctl_node());
}

/* In a process of its own: its checks end that. */
static bool passes(const char *taken, const char *node)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		fails_at(taken, node);
		fflush(stdout);
		_exit(PASS);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == PASS;
}

int main(void)
{
	static const char *const nodes[] = { "arax", "arax-ctl" };
	char path[32];
	int failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n1..2\n");
	for (int i = 0; i < 2; i++) {
		bool ok;

		snprintf(path, sizeof(path), "/dev/%s", nodes[!i]);
		ok = passes(nodes[i], path);
		failed += !ok;
		printf("%sok %d %s can't be had\n", ok ? "" : "not ", i + 1, nodes[i]);
	}
	return failed ? 1 : 0;
}
