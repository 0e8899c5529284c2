// SPDX-License-Identifier: MIT
/* What a program brings: who loads it waits for ever. */
#include <arax/kernel.h>

ARAX_KERNEL int never(const struct arax_launch *l);

static __attribute__((constructor)) void hang(void)
{
	volatile int forever = 1;

	while (forever)
		;
}

ARAX_KERNEL int never(const struct arax_launch *l)
{
	(void)l;
	return 0;
}
