// SPDX-License-Identifier: MIT
/* A worker that ends before it says that it is ready, while somebody else has its end of the socket. */
#include <unistd.h>

#include "daemon/worker/proto.h"

int main(void)
{
	char byte;

	if (fork())
		return 1;
	while (read(WORKER_FD_SOCKET, &byte, 1) > 0)
		;
	return 0;
}
