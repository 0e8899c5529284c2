/* SPDX-License-Identifier: MIT */
/* be_tracer.h - who keeps processes from ending, for tests of what hangs in the kernel */
#ifndef ARAX_SELFTESTS_UNIT_BE_TRACER_H
#define ARAX_SELFTESTS_UNIT_BE_TRACER_H

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Who is killed while it is traced so stops on its way out: it has had its SIGKILL, and there is no end
 * to see till the tracer has one.  -1: they can't be traced.
 */
static inline pid_t begin_tracer(const pid_t *pids, uint32_t n)
{
	int told[2];
	bool can;
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe2(told, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		for (uint32_t i = 0; i < n; i++)
			if (ptrace(PTRACE_SEIZE, pids[i], NULL, PTRACE_O_TRACEEXIT))
				_exit(1);
		if (write(told[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(told[1]);
	can = read(told[0], &byte, 1) == 1;
	close(told[0]);
	if (can)
		return pid;
	waitpid(pid, NULL, 0);
	return -1;
}

static inline void end_tracer(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

#endif /* ARAX_SELFTESTS_UNIT_BE_TRACER_H */
