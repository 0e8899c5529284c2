/* SPDX-License-Identifier: MIT */
/*
 * child.h - what a driver might not survive, in a child process that is watched
 *
 * Only where there are no threads and no driver: they don't survive the fork.
 */
#ifndef ARAX_DAEMON_BACKENDS_OPENCL_CHILD_H
#define ARAX_DAEMON_BACKENDS_OPENCL_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* @work leaves @answer, of @len bytes (at most PIPE_BUF), within @seconds. */
struct child {
	void (*work)(void *arg, void *answer);
	void *arg, *answer;
	size_t len;
	uint32_t seconds;
};

/* What became of it. */
struct child_end {
	bool answered;		/* else: */
	bool hung;
	uint32_t seconds;	/* that it had */
	int status;		/* as of waitpid() */
	char said[256];		/* its last line, or what it gave as its reason */
};

/* A negative errno: it could not be started. */
int child_run(const struct child *c, struct child_end *e);
/* The same by a process between, which leaves nothing that it has started, wherever that went. */
int child_run_alone(const struct child *c, struct child_end *e);
/*
 * Ends all children of the caller, who has no others and reaps (PR_SET_CHILD_SUBREAPER): what these
 * have started, too, and what that has, comes to us one by one.
 */
void child_end_rest(void);
/* Kills those that are there now, but for @but.  False: they can't be found. */
bool child_end_others(const pid_t *but, size_t nr);
/* "crashed (Aborted), saying ..."; @option: stands behind its seconds. */
void child_describe(const struct child_end *e, const char *option, char *what, size_t len);
/* None is caught or blocked any more. */
void child_signals(void);

#endif /* ARAX_DAEMON_BACKENDS_OPENCL_CHILD_H */
