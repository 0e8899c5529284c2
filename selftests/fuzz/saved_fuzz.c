// SPDX-License-Identifier: MIT
/* Files of saved limits: whatever is read can be written and read again. */
#include <stdlib.h>
#include <string.h>

#include "libarax/admin/saved.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int reports;

static void report(void *arg, const char *error)
{
	reports++;
	if (strncmp(error, "fuzz:", 5))
		abort();	/* file and line, or at least the file */
	for (; *error; error++)
		if ((unsigned char)*error < ' ' || (unsigned char)*error >= 0x7f)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct saved s = { 0 }, again = { 0 };
	size_t i, held = 0;
	char *text;
	int err;

	reports = 0;
	err = saved_parse(&s, "fuzz", (const char *)data, size, report, NULL);
	if ((err != 0) != (reports != 0))
		abort();
	text = saved_format(&s, "fuzz");
	if (!text || saved_parse(&again, "fuzz", text, strlen(text), report, NULL))
		abort();
	for (i = 0; i < s.count; i++) {
		const struct saved_limit *l = &s.at[i], *other;

		if (saved_check_cgroup(l->cgroup))
			abort();
		if (!saved_holds(&s, i))
			continue;
		held++;
		other = saved_find(&again, l->cgroup, l->key);
		if (!other || other->setting.value != l->setting.value ||
		    other->setting.period_ns != l->setting.period_ns)
			abort();
	}
	if (held != again.count)
		abort();
	free(text);
	saved_free(&s);
	saved_free(&again);
	return 0;
}
