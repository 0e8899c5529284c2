// SPDX-License-Identifier: MIT
/*
 * Opens a context, and another one that the daemon has no connection left for: then the exit
 * status is 0, and what the library says goes to standard output.  With an argument: has one
 * context until standard input ends.
 */
#include <errno.h>
#include <stdio.h>

#include <arax/arax.h>

int main(int argc, char **argv)
{
	struct arax_options o = { .size = sizeof(o), .flags = ARAX_OPEN_QUERY };
	struct arax_info info = { .size = sizeof(info) };
	struct arax *one, *two;
	int err;

	err = arax_open(&one, &o);
	if (!err)
		err = arax_get_info(one, &info);
	if (err) {
		printf("the first: %s\n", arax_strerror(err));
		return 1;
	}
	if (argc > 1) {
		arax_close(one);
		err = arax_open(&one, NULL);
		while (!err && getchar() != EOF)
			;
		return err != 0;
	}
	err = arax_open(&two, NULL);
	printf("%s\n%s\n", arax_strerror(err), arax_error_text());
	/* Nor has one without rings any. */
	if (err == -EUSERS)
		err = arax_open(&two, &o);
	if (!err)
		arax_close(two);
	arax_close(one);
	return err != -EUSERS;
}
