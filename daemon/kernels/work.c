// SPDX-License-Identifier: MIT
#include "daemon/kernels/work.h"

#include <errno.h>

#include "daemon/reason.h"

/* Of a launch on a GPU for each of its threads: alone, one is slower than a core. */
#define THREAD_MOST	(1ull << 32)

/* Those that only begin and end again do nothing for the others. */
static uint64_t busy_groups(const struct kernel *k, const struct arax_launch *l)
{
	uint64_t all = arax_launch_groups(l), busy = k->work.busy.nr ? steps_of(&k->work.busy, l) : all;

	return busy < all ? busy : all;
}

static uint64_t of_threads(const struct kernel *k, const struct arax_launch *l)
{
	uint64_t n = busy_groups(k, l);

	for (int i = 0; i < 3; i++)
		if (__builtin_mul_overflow(n, (uint64_t)l->block[i], &n))
			return UINT64_MAX;
	return __builtin_mul_overflow(n, THREAD_MOST, &n) ? UINT64_MAX : n;
}

/* @few: because of its grid, or its groups. */
static uint64_t most_of(const struct kernel *k, const struct arax_launch *l, bool gpu, bool *few)
{
	uint64_t most = gpu ? k->work.most_gpu : k->work.most, threads = gpu ? of_threads(k, l) : most;

	*few = threads < most;
	return *few ? threads : most;
}

bool work_allows(const struct kernel *k, const struct arax_launch *l, bool gpu)
{
	bool few;

	return steps_of(&k->work.steps, l) <= most_of(k, l, gpu, &few);
}

int work_refuse(const struct kernel *k, const struct arax_launch *l, bool gpu)
{
	bool few;
	uint64_t steps = steps_of(&k->work.steps, l), most = most_of(k, l, gpu, &few);
	const char *or = "";

	if (steps <= most)
		return 0;
	/* As many as it has something for it may have by now. */
	if (few)
		or = k->work.busy.nr && steps_of(&k->work.busy, l) <= arax_launch_groups(l) ?
		     ", or larger work-groups" : ", or a larger grid";
	/* What may be long stands last. */
	reason_set("kernel %s would take %s%llu steps, and nothing could end it: it does at most %llu in a launch%s; launch it on smaller ranges%s (steps are %s)",
		   k->sig.name, steps == STEPS_TOO_MANY ? "more than " : "",
		   (unsigned long long)steps, (unsigned long long)most,
		   few ? " of so few threads" : "", or, k->work.steps.text);
	return -EINVAL;
}
