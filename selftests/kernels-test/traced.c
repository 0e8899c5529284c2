// SPDX-License-Identifier: MIT
/* As stops.c; and as somebody traces it, for some seconds, it is there that long even if killed. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

int main(void)
{
	pid_t worker = getpid();
	int told[2];
	char byte;

	/* Where that is unknown it is not needed. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (pipe(told))
		return 1;
	if (!fork()) {
		if (ptrace(PTRACE_SEIZE, worker, NULL, NULL) || write(told[1], "", 1) != 1)
			return 1;
		sleep(5);
		return 0;
	}
	close(told[1]);
	return read(told[0], &byte, 1) != 1 || raise(SIGSTOP) ? 2 : 1;
}
