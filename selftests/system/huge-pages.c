// SPDX-License-Identifier: MIT
/*
 * Buffers on the broker link are in huge pages where these are for who asks, and have no page
 * more than was asked for.  Of a machine where nobody else makes shared memory: a guest.
 */
#include "stack.h"

#include <fcntl.h>
#include <unistd.h>

#define MIB	(1ull << 20)
#define SLACK	(256ull << 10)	/* pages that CPUs have not counted yet, and who else is there */

static unsigned long long meminfo(const char *key)
{
	unsigned long long kib = 0;
	char line[256];
	FILE *f = fopen("/proc/meminfo", "re");
	size_t n = strlen(key);

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, n) && line[n] == ':')
			kib = strtoull(line + n + 1, NULL, 10);
	fclose(f);
	return kib << 10;
}

/* What a buffer of @bytes takes, and of that in huge pages: @huge, or less if memory is in pieces. */
static unsigned long long takes(struct stack *s, size_t bytes, unsigned long long huge)
{
	unsigned long long before = meminfo("Shmem"), in_huge = meminfo("ShmemHugePages"), all;
	struct arax_buffer *b = stack_buffer(s, bytes);
	unsigned char *p = arax_buffer_data(b);
	unsigned long long got;
	int i;

	p[0] = p[bytes - 1] = 1;
	all = meminfo("Shmem") - before;
	got = meminfo("ShmemHugePages") - in_huge;
	printf("# %zu bytes take %llu, of which %llu in huge pages\n", bytes, all, got);
	CHECK(all + SLACK >= bytes && all <= bytes + SLACK);
	CHECK(got <= huge);
	arax_buffer_destroy(b);
	/* araxd lets go of it a moment later. */
	for (i = 0; i < 60000 && (meminfo("ShmemHugePages") != in_huge ||
				  meminfo("Shmem") > before + SLACK); i++)
		usleep(1000);
	CHECK_EQ(meminfo("ShmemHugePages"), in_huge);
	CHECK(meminfo("Shmem") <= before + SLACK);
	return got;
}

static int for_who_asks(void)
{
	char text[128] = "";
	int fd = open("/sys/kernel/mm/transparent_hugepage/shmem_enabled", O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	if (fd >= 0)
		close(fd);
	return !!strstr(text, "[advise]");
}

TEST(buffers_are_in_huge_pages)
{
	unsigned long long huge;
	struct stack s;

	if (!for_who_asks())
		tap_skip("no huge pages of shared memory for who asks");
	s = stack_open(0);
	takes(&s, 64 << 10, 0);
	huge = takes(&s, 2 * MIB, 2 * MIB) + takes(&s, 4 * MIB + 4096, 4 * MIB) +
	       takes(&s, 64 * MIB, 64 * MIB);
	stack_close(&s);
	if (!huge)
		tap_skip("no huge page was to be had: memory is in pieces, or this kernel gives none");
}
