// SPDX-License-Identifier: MIT
#include "selftests/unit/far_map.h"

static const struct far_case *const all[] = { far_items, far_rows, far_grids };

far_launch *launch;

static const struct far_case *case_at(size_t i)
{
	for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
		for (const struct far_case *c = all[k]; c->name; c++)
			if (!i--)
				return c;
	return NULL;
}

size_t far_nr(void)
{
	size_t nr = 0;

	while (case_at(nr))
		nr++;
	return nr;
}

const char *far_name(size_t i)
{
	return case_at(i)->name;
}

void far_run(size_t i, far_launch *how)
{
	const struct far_case *c = case_at(i);

	launch = how;
	c->run(c);
}
