// SPDX-License-Identifier: MIT
#include "daemon/backends/cpulist.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int number(const char **p, unsigned int *out)
{
	unsigned int n = 0;
	const char *s = *p;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++) {
		n = n * 10 + (unsigned int)(*s - '0');
		if (n >= CPU_SETSIZE)
			return -ERANGE;
	}
	*p = s;
	*out = n;
	return 0;
}

int cpulist_parse(const char *text, cpu_set_t *set)
{
	const char *p = text;

	CPU_ZERO(set);
	for (;;) {
		unsigned int first, last;
		int err = number(&p, &first);

		last = first;
		if (!err && *p == '-') {
			p++;
			err = number(&p, &last);
		}
		if (err)
			return err;
		if (last < first)
			return -EINVAL;
		for (; first <= last; first++)
			CPU_SET(first, set);
		if (!*p)
			return 0;
		if (*p++ != ',')
			return -EINVAL;
	}
}

void cpulist_format(const cpu_set_t *set, char *text, size_t len)
{
	size_t used = 0;

	text[0] = '\0';
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		int last = cpu, n;

		if (!CPU_ISSET(cpu, set))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
			last++;
		if (last == cpu)
			n = snprintf(text + used, len - used, "%s%d", used ? "," : "", cpu);
		else
			n = snprintf(text + used, len - used, "%s%d-%d", used ? "," : "", cpu, last);
		if (n < 0 || (size_t)n >= len - used)
			return;
		used += (size_t)n;
		cpu = last;
	}
}
