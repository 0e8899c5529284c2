// SPDX-License-Identifier: MIT
/* An OpenCL driver that does what BAD_ICD says as soon as its loader asks it for anything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *clGetExtensionFunctionAddress(const char *name);

__attribute__((visibility("default")))
void *clGetExtensionFunctionAddress(const char *name)
{
	const char *what = getenv("BAD_ICD");

	if (what && !strcmp(what, "abort")) {
		fprintf(stderr, "bad_icd: out of luck\n");
		abort();
	}
	if (what && !strcmp(what, "exit"))
		_exit(7);
	while (what && !strcmp(what, "hang"))
		pause();
	return NULL;
}
