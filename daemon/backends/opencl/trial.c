// SPDX-License-Identifier: MIT
/*
 * Discovery in a child first: what a driver does there that it had better not (end the
 * process, wait for ever) becomes the reason why its devices are not there, with the driver's name,
 * and araxd starts without it: with the others, if they answer alone, else without OpenCL.  Comes before araxd has threads, and before a driver is in it: they
 * don't survive a fork.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/backends/opencl/child.h"
#include "daemon/backends/opencl/drivers.h"
#include "daemon/backends/opencl/opencl.h"
#include "daemon/backends/stacks.h"

/* For each driver alone, once they have hung together: what answers, answers sooner. */
#define ALONE_SECONDS 10u

struct answer {
	int found;		/* as of opencl_find() */
	char why[256];
};

/* What the child found out, and what became of it. */
struct trial {
	struct answer a;
	struct child_end end;
};

static void try_here(void *icd, void *answer)
{
	struct answer *a = answer;

	if (icd)
		setenv("OCL_ICD_VENDORS", icd, 1);
	a->found = opencl_api_open(a->why, sizeof(a->why));
	if (!a->found)
		a->found = opencl_find(a->why, sizeof(a->why));
}

/* One @icd alone; NULL: all of them, as the loader finds them. */
static int try_one(struct trial *t, char *icd, uint32_t seconds)
{
	const struct child c = {
		.work = try_here, .arg = icd, .answer = &t->a, .len = sizeof(t->a),
		.seconds = seconds,
	};

	memset(t, 0, sizeof(*t));
	return child_run_alone(&c, &t->end);
}

static void describe(const struct trial *t, char *what, size_t len)
{
	child_describe(&t->end,
		       t->end.seconds == opencl_options.probe_seconds ? " (option probe-seconds)" : "",
		       what, len);
}

static uint32_t alone_seconds(void)
{
	uint32_t seconds = opencl_options.probe_seconds;

	return seconds > ALONE_SECONDS ? ALONE_SECONDS : seconds;
}

/*
 * Who it is: each alone, as long as there is more than one to suspect.  @others, of DRIVERS_LEN
 * bytes: those that have answered, if any has not.
 */
static void blame(const struct trial *all, char *why, size_t len, char *others)
{
	char **files, who[160] = "", what[400], left[160] = "";
	uint32_t nr = stack_icd_files(&files), guilty = 0;
	struct trial t = *all;

	others[0] = '\0';
	for (uint32_t i = 0; i < nr && nr > 1; i++) {
		struct trial one;
		size_t at = strlen(who);

		if (try_one(&one, files[i], alone_seconds()))
			continue;
		if (one.end.answered) {
			if (drivers_add(others, files[i]) == -ENOSPC)
				snprintf(left, sizeof(left), "; %s is left out, too: the others' names have more than %u bytes",
					 files[i], DRIVERS_LEN);
			continue;
		}
		snprintf(who + at, sizeof(who) - at, "%s%s", guilty++ ? ", " : "", files[i]);
		t = one;
	}
	describe(&t, what, sizeof(what));
	if (!guilty)
		others[0] = '\0';
	if (!guilty && nr == 1)
		snprintf(who, sizeof(who), "%s", files[0]);
	else if (!guilty && nr)
		stack_icds(who, sizeof(who));
	snprintf(why, len, "%s%s %s while araxd looked for its devices: remove it, or name others in OCL_ICD_VENDORS%s",
		 nr == 1 || guilty ? "OpenCL driver " : nr ? "one of the OpenCL drivers " :
						"the OpenCL loader libOpenCL.so.1",
		 who, what, left);
	stack_icd_free(files, nr);
}

static char folder[] = "/tmp/arax-icd-XXXXXX";
static bool made;

/* Once more together, as that is how they will be opened. */
static int go_on_with(const char *others)
{
	const char *before = getenv("OCL_ICD_VENDORS");
	char *was = before ? strdup(before) : NULL;
	struct trial t;
	int err = -ENODEV;

	if (before && !was)
		return -ENOMEM;
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	made = mkdtemp(folder);
	if (made && !drivers_only(others, folder) && !try_one(&t, NULL, alone_seconds()) &&
	    t.end.answered && t.a.found > 0)
		err = setenv(DRIVERS_VARIABLE, others, 1) ? -errno : 0;
	if (err && was)
		setenv("OCL_ICD_VENDORS", was, 1);
	else if (err)
		unsetenv("OCL_ICD_VENDORS");
	if (err)
		opencl_try_forget();
	free(was);
	return err;
}

void opencl_try_forget(void)
{
	if (made)
		drivers_remove(folder);
	made = false;
}

int opencl_try(char *why, size_t len)
{
	char others[DRIVERS_LEN];
	struct trial t;

	why[0] = '\0';
	unsetenv(DRIVERS_VARIABLE);
	if (opencl_api_is_open() || try_one(&t, NULL, opencl_options.probe_seconds))
		return 0;
	if (!t.end.answered) {
		blame(&t, why, len, others);
		return others[0] ? go_on_with(others) : -ENODEV;
	}
	if (t.a.found > 0)
		return 0;
	snprintf(why, len, "%s", t.a.why);
	return t.a.found ? t.a.found : -ENODEV;
}
