// SPDX-License-Identifier: MIT
/*
 * The table of kernels, to its end.  Nothing leaves it while the module is loaded: so
 * this runs by itself, between two loads (params.sh).
 */
#include "ktest.h"

#define KERNELS	4096

static int publish(struct mediator *m, unsigned int n, uint32_t kinds, uint32_t *id)
{
	struct arax_kernel_publish k = { .size = sizeof(k), .kinds = kinds };
	int err;

	/* They differ at the start: each is compared with all. */
	snprintf(k.name, sizeof(k.name), "%c%c", 'A' + n % 64, 'A' + n / 64);
	err = CALL(m->fd, KERNEL_PUBLISH, &k);
	*id = k.id;
	return err;
}

KTEST(kernels_beyond_the_table_are_ENOSPC)
{
	struct arax_kernel_publish k = { .size = sizeof(k), .kinds = 1, .name = "one more" };
	struct arax_kernel_lookup l = { .size = sizeof(l) };
	struct arax_info i = { .size = sizeof(i) };
	uint32_t id, first = 0;
	struct mediator m;
	unsigned int n;

	mediator_open(&m, 0);
	CHECK_OK(CALL(m.fd, INFO, &i));
	CHECK_EQ(i.nr_kernels, 0);
	for (n = 0; n < KERNELS; n++) {
		CHECK_OK(publish(&m, n, 1, &id));
		if (!n)
			first = id;
	}
	CHECK_ERR(CALL(m.fd, KERNEL_PUBLISH, &k), ENOSPC);
	CHECK_OK(CALL(m.fd, INFO, &i));
	CHECK_EQ(i.nr_kernels, KERNELS);
	/* Those that are there can still be changed, and found. */
	CHECK_OK(publish(&m, 0, 2, &id));
	CHECK_EQ(id, first);
	l.id = first;
	CHECK_OK(CALL(m.fd, KERNEL_LOOKUP, &l));
	CHECK_EQ(l.kinds, 2);
	memcpy(l.name, k.name, sizeof(l.name));
	CHECK_ERR(CALL(m.fd, KERNEL_LOOKUP, &l), ENOENT);
	mediator_close(&m);
}
