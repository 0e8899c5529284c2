// SPDX-License-Identifier: MIT
/* Administrators' calls: /dev/arax-ctl, or the broker's own socket. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "libarax/link.h"

struct admin {
	struct link *link;
};

struct admin *admin_open(void)
{
	struct admin *a = calloc(1, sizeof(*a));

	if (a && !link_open(&a->link, NULL, true))
		return a;
	free(a);
	cli_fail(NULL);
	return NULL;
}

int admin_call(struct admin *a, unsigned int nr, void *arg)
{
	return a->link->ops->call(a->link, nr, arg);
}

void admin_close(struct admin *a)
{
	a->link->ops->close(a->link, false);
	free(a);
}

int admin_fail(int err, const char *format, ...)
{
	va_list args;

	fputs("arax: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	if (err == -EPERM || err == -ENOTTY)
		fputs(": only for root, or of a private araxd for its own user alone\n", stderr);
	else
		fprintf(stderr, ": %s\n", arax_strerror(err));
	return EXIT_FAILED;
}
