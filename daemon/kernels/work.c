// SPDX-License-Identifier: MIT
#include "daemon/kernels/work.h"

#include <errno.h>
#include <string.h>

#include "daemon/reason.h"

/* UINT64_MAX: that many, or more. */
static uint64_t steps_of(const struct kernel_work *w, const struct arax_launch *l)
{
	uint64_t steps = 1;
	bool none = false;

	for (uint32_t i = 0; i < w->nr; i++) {
		uint32_t factor;

		/* Too few bytes of arguments the kernel itself refuses. */
		if (w->at[i] + sizeof(factor) > l->arg_len)
			return 0;
		memcpy(&factor, (const char *)l->args + w->at[i], sizeof(factor));
		none |= !factor;
		if (__builtin_mul_overflow(steps, (uint64_t)factor, &steps))
			steps = UINT64_MAX;
	}
	return none ? 0 : steps;
}

int work_refuse(const struct kernel *k, const struct arax_launch *l)
{
	uint64_t steps = steps_of(&k->work, l);

	if (steps <= k->work.most)
		return 0;
	reason_set("kernel %s would be %s = %s%llu steps, and nothing could end it: it does at most %llu in a launch; launch it on smaller ranges",
		   k->sig.name, k->work.text, steps == UINT64_MAX ? "more than " : "",
		   (unsigned long long)steps, (unsigned long long)k->work.most);
	return -EINVAL;
}
