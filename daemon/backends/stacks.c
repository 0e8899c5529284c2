// SPDX-License-Identifier: MIT
#include "daemon/backends/stacks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VENDORS "/etc/OpenCL/vendors"

static const struct {
	const char *name;
	const char *sign;	/* is there where such a device is; NULL: see ICDs */
} stacks[] = {
	{ "cpu", "" },
	{ "opencl", NULL },
	{ "cuda", "/dev/nvidiactl" },
	{ "hip", "/dev/kfd" },
	{ "xrt", "/sys/bus/pci/drivers/xocl" },
};

#define NR_STACKS (sizeof(stacks) / sizeof(stacks[0]))

const char *stack_at(uint32_t i)
{
	return i < NR_STACKS ? stacks[i].name : NULL;
}

/* ------------------------------------------------------------------ */
/* OpenCL's drivers                                                      */

static int is_icd(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return n > 4 && !strcmp(d->d_name + n - 4, ".icd");
}

/* As the loaders have it: a folder, one such file, or a library itself. */
static const char *vendors(void)
{
	const char *set = getenv("OCL_ICD_VENDORS");

	if (!set || !set[0])
		set = getenv("OPENCL_VENDOR_PATH");
	return set && set[0] ? set : VENDORS;
}

/* The path is the array's from here on; NULL: no memory. */
static uint32_t add_file(char ***files, uint32_t nr, char *path)
{
	char **more = path ? realloc(*files, (nr + 1) * sizeof(*more)) : NULL;

	if (!more) {
		free(path);
		return nr;
	}
	*files = more;
	more[nr] = path;
	return nr + 1;
}

uint32_t stack_icd_files(char ***files)
{
	const char *where = vendors();
	struct dirent **found;
	uint32_t nr = 0;
	struct stat st;
	char *path;
	int n;

	*files = NULL;
	if (stat(where, &st))
		return 0;
	if (!S_ISDIR(st.st_mode))
		return add_file(files, 0, strdup(where));
	n = scandir(where, &found, is_icd, alphasort);
	for (int i = 0; i < n; i++) {
		if (asprintf(&path, "%s/%s", where, found[i]->d_name) > 0)
			nr = add_file(files, nr, path);
		free(found[i]);
	}
	if (n >= 0)
		free(found);
	return nr;
}

void stack_icd_free(char **files, uint32_t nr)
{
	while (nr)
		free(files[--nr]);
	free(files);
}

uint32_t stack_icds(char *names, size_t len)
{
	char **files;
	uint32_t nr = stack_icd_files(&files);
	size_t at = 0;

	if (len)
		names[0] = '\0';
	for (uint32_t i = 0; i < nr; i++) {
		const char *slash = strrchr(files[i], '/');
		int n = snprintf(names + at, len - at, "%s%s", i ? ", " : "",
				 slash ? slash + 1 : files[i]);

		at = n < 0 || (size_t)n >= len - at ? len - 1 : at + (size_t)n;
	}
	stack_icd_free(files, nr);
	return nr;
}

/* ------------------------------------------------------------------ */
/* Left out                                                              */

static bool is_used(const struct config *c, const char *name)
{
	if (!strcmp(name, "cpu"))
		return c->cpu.enable;
	for (size_t i = 0; i < c->nr_backends; i++)
		if (strcspn(c->backends[i].name, ".") == strlen(name) &&
		    !strncmp(c->backends[i].name, name, strlen(name)))
			return true;
	return false;
}

/* What of the machine says that it would have devices; empty: nothing that is seen so cheaply. */
static void look_for(const char *name, char *sign, size_t len)
{
	sign[0] = '\0';
	for (size_t i = 0; i < NR_STACKS; i++) {
		if (strcmp(stacks[i].name, name))
			continue;
		if (!stacks[i].sign)
			stack_icds(sign, len);
		else if (stacks[i].sign[0] && !access(stacks[i].sign, F_OK))
			snprintf(sign, len, "%s", stacks[i].sign);
	}
}

bool stack_is_unused(const struct config *c, const char *name, char *why, size_t len)
{
	bool cpu = !strcmp(name, "cpu");
	char sign[256], how[128];

	if (is_used(c, name))
		return false;
	if (c->kinds)
		snprintf(how, sizeof(how), "left out by --kind: add %s there", name);
	else if (cpu)
		snprintf(how, sizeof(how), "switched off: cpu { enable = false } in araxd.conf");
	else
		snprintf(how, sizeof(how),
			 "not configured: add backend \"%s\" { } to araxd.conf, or use --kind %s",
			 name, name);
	look_for(name, sign, sizeof(sign));
	snprintf(why, len, "%s%s%s%s", how, sign[0] ? " (this machine has " : "", sign,
		 sign[0] ? ")" : "");
	return true;
}
