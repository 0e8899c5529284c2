/* SPDX-License-Identifier: MIT */
/*
 * be_gpu.h - what the tests of the GPU backends share
 *
 * They run the real backends "cuda" and "hip" on a driver in software (emulated, not
 * hardware: selftests/gpu-emulated), which is loaded by its path.
 */
#ifndef ARAX_SELFTESTS_UNIT_BE_GPU_H
#define ARAX_SELFTESTS_UNIT_BE_GPU_H

#include <dlfcn.h>
#include <sys/wait.h>

#include "daemon/backends/plugin.h"
#include "selftests/gpu-emulated/emulated.h"
#include "selftests/unit/be_device.h"

static const struct gpu_which {
	const char *name;
	uint32_t kind;
	const char *file;	/* of a plug-in; NULL: it is built in */
} gpus[] = {
#ifdef GPU_HAS_CUDA
	{ "cuda", ARAX_DEVICE_CUDA, NULL },
#endif
#ifdef GPU_HAS_HIP
	{ "hip", ARAX_DEVICE_HIP, NULL },
#endif
};

#define NR_GPUS ((int)(sizeof(gpus) / sizeof(gpus[0])))

/* Of the variant that this program is of: a sanitizer wants all or nothing. */
static inline const char *emulated_library(char path[4096], const char *name)
{
	char cwd[3072];

	ck_assert_ptr_nonnull(getcwd(cwd, sizeof(cwd)));
	snprintf(path, 4096, "%s/build/test/" VARIANT "/lib%s-emulated.so", cwd, name);
	return path;
}

static inline const char *emulated_path(const struct gpu_which *w)
{
	static char path[4096];

	return emulated_library(path, w->name);
}

/*
 * How many devices the machine's own driver has; else @why not.  Asked in a child, as a
 * driver does not outlive a fork, and each test is one.
 */
static inline int real_gpus(const struct gpu_which *w, char *why, size_t len)
{
	static struct backend_plugin plugin;
	int pipes[2], n = -1;
	ssize_t got;
	pid_t pid;

	why[0] = '\0';
	if (pipe(pipes))
		return -1;
	pid = fork();
	if (!pid) {
		if (!backend_plugin_load(&plugin, w->name, w->file, why, len) && !plugin.ops.load())
			n = plugin.ops.probe(why, len);
		if (n <= 0)
			dprintf(pipes[1], "%s", why);
		_exit(n > 100 ? 100 : n > 0 ? n : 0);
	}
	close(pipes[1]);
	got = read(pipes[0], why, len - 1);
	why[got > 0 ? got : 0] = '\0';
	close(pipes[0]);
	return waitpid(pid, &n, 0) == pid && WIFEXITED(n) ? WEXITSTATUS(n) : -1;
}

#endif /* ARAX_SELFTESTS_UNIT_BE_GPU_H */
