// SPDX-License-Identifier: MIT
/*
 * An OpenCL driver, for kernels that a program brought, and installed ones that follow data: by
 * araxd's own backend, which has the same device open there with the same options.
 *
 * One process compiles, and runs nothing of it; another one runs what that wrote, and has
 * no compiler that could start a program: PoCL links what it compiles with one.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/backends/builtin.h"
#include "daemon/backends/opencl/drivers.h"
#include "daemon/backends/opencl/opencl.h"
#include "daemon/worker/engine.h"

#define TEXT_MAX	65000u
#define LOG_LINES	4000u

static const struct arax_backend *backend;
static void *device;
static char said[TEXT_MAX];	/* by the backend since the last question */
static char reason[256];	/* by it, in short */
static int output = -1;

static void keep_words(int level, const char *plugin, const char *text)
{
	size_t n = strlen(said);

	(void)plugin;
	if (level <= ARAX_LOG_WARNING)
		snprintf(said + n, sizeof(said) - n, "%s%s", n ? "\n" : "", text);
}

static void keep_reason(const char *text)
{
	snprintf(reason, sizeof(reason), "%s", text);
}

static const struct arax_backend_host host = {
	.struct_size = sizeof(host), .api_version = ARAX_BACKEND_API, .log = keep_words,
	.explain = keep_reason,
};

/* The first line, if no other one says it: it is all that some get to see. */
static void put_reason_first(void)
{
	size_t n = strlen(reason);

	if (!n || strstr(said, reason))
		return;
	said[TEXT_MAX - n - 2] = '\0';
	memmove(said + n + 1, said, strlen(said) + 1);
	memcpy(said, reason, n);
	said[n] = '\n';
}

#define DRIVERS_FOLDER	WORKER_SCRATCH "/icd"

/* Drivers keep files where one of these says. */
static int set_environment(void)
{
	static const char *const vars[][2] = {
		{ "HOME", WORKER_SCRATCH }, { "TMPDIR", WORKER_SCRATCH },
		{ "XDG_CACHE_HOME", WORKER_SCRATCH }, { "POCL_CACHE_DIR", WORKER_SCRATCH "/pocl" },
		{ "PATH", "/usr/bin:/bin" },
		/* PoCL else compiles anew for each size of work-groups, when it is launched. */
		{ "POCL_WORK_GROUP_SPECIALIZATION", "0" },
	};

	const char *only = getenv(DRIVERS_VARIABLE);

	for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++)
		if (setenv(vars[i][0], vars[i][1], 1))
			return -errno;
	if (!only)
		return 0;
	return mkdir(DRIVERS_FOLDER, 0700) ? -errno : drivers_only(only, DRIVERS_FOLDER);
}

static int open_engine(void)
{
	int err = set_environment();

	if (err)
		return err;
	signal(SIGXFSZ, SIG_IGN);	/* what is too large is an error, not the end */
	backend = opencl_backend_init(&host);
	err = backend->load();
	/* Its owner asked for all of it. */
	opencl_options.log_lines = LOG_LINES;
	return err ? err : backend->config("cache", "no");
}

static int open_to_run(void)
{
	int err = open_engine();

	opencl_options.built = true;
	return err;
}

/* araxd has taken them all already. */
static void option(const char *text)
{
	const char *value = strchr(text, '=');
	char key[64];

	if (!value || (size_t)(value - text) >= sizeof(key))
		return;
	snprintf(key, sizeof(key), "%.*s", (int)(value - text), text);
	if (strcmp(key, "cache") && strcmp(key, "lanes"))
		backend->config(key, value + 1);
}

/* Compilers' own, which print what nobody sees, and die of something else than what happened. */
static void forget_handlers(void)
{
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGTRAP };

	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		signal(crashes[i], SIG_DFL);
}

/*
 * The number is araxd's: who sees fewer devices, for want of rights to some, has others under
 * it, of which the name tells.
 */
static int open_device(uint32_t index, const char *name, const char **why)
{
	static char text[256];
	struct arax_backend_info info = { .size = sizeof(info) };
	int nr, err;

	*why = text;
	backend->config("lanes", "1");
	nr = backend->probe(text, sizeof(text));
	if (nr < 0)
		return nr;
	*why = "a process with a user's rights sees other OpenCL devices than araxd";
	if (index >= (uint32_t)nr)
		return -ENODEV;
	err = backend->open(index, &device);
	if (err) {
		*why = "the device can't be opened by a process with a user's rights";
		return err;
	}
	forget_handlers();
	backend->info(device, &info);
	if (strcmp(info.name, name))
		return -ENODEV;
	if (info.memory) {
		*why = "the device does not work on a user's pages";
		return -EOPNOTSUPP;
	}
	return 0;
}

static void load(const struct worker_msg *msg, int fd, bool *keep, struct loaded *k)
{
	struct arax_backend_kernel desc = {
		.size = sizeof(desc), .fd = fd, .file = "the module", .symbol = msg->symbol,
		.signature = msg->text,
	};

	*keep = true;	/* for the image's other kernels */
	said[0] = reason[0] = '\0';
	k->err = backend->kernel_load(device, &desc, &k->kernel);
	if (!k->err)
		return;
	put_reason_first();
	k->why = strdup(said);
}

/* What loads here is in a program that has been compiled whole. */
static void build(const struct worker_msg *msg, int fd, bool *keep, struct loaded *k)
{
	int err;

	load(msg, fd, keep, k);
	if (k->err) {
		if (write(output, said, strlen(said)) < 0)
			_exit(1);
		return;
	}
	err = opencl_program_save(device, ((struct opencl_kernel *)k->kernel)->program, output);
	if (!err)
		return;
	/* A part of it is no words. */
	if (ftruncate(output, 0))
		_exit(1);
	k->err = err == -ENOENT ? -ENOEXEC : err == -EFBIG ? -E2BIG : err;
	k->why = strdup(err == -ENOENT ? "the driver gives nobody what it compiled" :
					 "what was compiled is too large, or can't be kept");
}

static void set_output(int fd)
{
	output = fd;
}

static int run(const struct loaded *k, const struct arax_launch *l, const struct engine_how *how)
{
	struct arax_backend_run run = {
		.size = sizeof(run), .kernel = k->kernel, .launch = l, .name = "a program's own",
	};

	(void)how;
	reason[0] = '\0';
	return backend->run(device, &run);
}

static const char *why_it_failed(void)
{
	return reason;
}

static int run_nothing(const struct loaded *k, const struct arax_launch *l,
		       const struct engine_how *how)
{
	(void)k;
	(void)l;
	(void)how;
	return -EOPNOTSUPP;
}

const struct engine engine_opencl = {
	.open = open_to_run, .option = option, .device = open_device, .load = load, .run = run,
	.why = why_it_failed,
};

const struct engine engine_opencl_build = {
	.open = open_engine, .option = option, .device = open_device, .load = build,
	.output = set_output, .run = run_nothing,
};
