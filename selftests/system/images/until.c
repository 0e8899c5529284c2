// SPDX-License-Identifier: MIT
/* What a program brings: a kernel that runs until it is told to stop, maybe never. */
#include <arax/kernel.h>
#include <errno.h>

ARAX_KERNEL int until(const struct arax_launch *l);

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
