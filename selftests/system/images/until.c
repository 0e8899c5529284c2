// SPDX-License-Identifier: MIT
/* What a program brings: a kernel that runs until it is told to stop, maybe never; and a crowd. */
#include <arax/kernel.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#define CROWD	64u

ARAX_KERNEL int until(const struct arax_launch *l);
ARAX_KERNEL int crowd(const struct arax_launch *l);

/* until(inout u32 x[], u32 unused): counts in x[0] while x[1] is 0 */
ARAX_KERNEL int until(const struct arax_launch *l)
{
	uint32_t *x = ARAX_ITEMS(l, 0, 2, uint32_t);

	if (!x)
		return -EINVAL;
	while (!__atomic_load_n(&x[1], __ATOMIC_RELAXED))
		__atomic_fetch_add(&x[0], 1, __ATOMIC_RELAXED);
	return 0;
}

static void *wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* crowd(inout u32 x[], u32 unused): how many threads can be had beside this one */
ARAX_KERNEL int crowd(const struct arax_launch *l)
{
	uint32_t *x = ARAX_ITEMS(l, 0, 1, uint32_t);
	pthread_attr_t attr;
	pthread_t thread;

	if (!x)
		return -EINVAL;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (x[0] = 0; x[0] < CROWD && !pthread_create(&thread, &attr, wait_for_ever, NULL); x[0]++)
		;
	return 0;
}
