// SPDX-License-Identifier: MIT
/* A worker whose user stops it before it says that it is ready. */
#include <signal.h>

int main(void)
{
	return raise(SIGSTOP) ? 2 : 1;
}
