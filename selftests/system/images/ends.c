// SPDX-License-Identifier: MIT
/* What a program brings: its process ends as it is loaded, in a way that the program writes into it. */
#include <arax/kernel.h>
#include <stdlib.h>

ARAX_KERNEL int nothing(const struct arax_launch *l);

static const char how[] __attribute__((used)) = "ARAX-TEST-ENDS:?";

static __attribute__((constructor)) void end(void)
{
	const volatile char *text = how;
	volatile uintptr_t nowhere = 16;

	switch (text[sizeof(how) - 2]) {
	case 'e':
		exit(0);
	case 'a':
		abort();
	case 's':
		*(volatile int *)nowhere = 1;
	}
}

ARAX_KERNEL int nothing(const struct arax_launch *l)
{
	(void)l;
	return 0;
}
