// SPDX-License-Identifier: MIT
/*
 * XRT is two libraries: one with the calls, and a shim for the driver or for an
 * emulation, which the first one opens by a path below $XILINX_XRT when it needs it and
 * says nothing but "No such library" if it isn't there.  So it is looked for here.
 */
#include "daemon/backends/xrt/api.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY	"libxrt_coreutil.so.2"
#define VENDOR	"/opt/xilinx/xrt"

struct xrt_api xrt;
static void *library, *shim;
static char made[64];		/* a folder of ours that stands for the root */

const char *xrt_emulation(void)
{
	const char *mode = getenv("XCL_EMULATION_MODE");

	return mode && mode[0] ? mode : NULL;
}

static const char *shim_name(void)
{
	const char *mode = xrt_emulation();

	return !mode			? "libxrt_core.so.2" :
	       !strcmp(mode, "noop")	? "libxrt_noop.so.2" :
	       !strcmp(mode, "sw_emu")	? "libxrt_swemu.so.2" :
	       !strcmp(mode, "hw_emu")	? "libxrt_hwemu.so.2" :
					  NULL;
}

/*
 * A distribution has the libraries in a folder of its own, which XRT does not know:
 * it gets one that it does, with a link to that.
 */
static void stand_for(const char *folder)
{
	char link[sizeof(made) + 8], root[PATH_MAX];
	size_t n = strlen(folder);

	if (n > 4 && !strcmp(folder + n - 4, "/lib")) {
		snprintf(root, sizeof(root), "%.*s", (int)(n - 4), folder);
		setenv("XILINX_XRT", root, 1);
		return;
	}
	strcpy(made, "/tmp/arax-xrt-XXXXXX");
	if (!mkdtemp(made)) {
		made[0] = '\0';
		return;
	}
	snprintf(link, sizeof(link), "%s/lib", made);
	if (!symlink(folder, link))
		setenv("XILINX_XRT", made, 1);
}

static void find_root(void)
{
	char path[PATH_MAX], *slash;
	const char *given = getenv("XILINX_XRT");
	Dl_info where;

	if (given && given[0])
		return;
	snprintf(path, sizeof(path), VENDOR "/lib/%s", shim_name());
	if (!access(path, R_OK)) {
		setenv("XILINX_XRT", VENDOR, 1);
		return;
	}
	if (!dladdr((void *)xrt.DeviceOpen, &where) || !where.dli_fname ||
	    where.dli_fname[0] != '/')
		return;
	snprintf(path, sizeof(path), "%s", where.dli_fname);
	slash = strrchr(path, '/');
	*slash = '\0';
	stand_for(path);
}

static int open_shim(char *why, size_t len)
{
	const char *root;
	char path[PATH_MAX];

	if (!shim_name()) {
		snprintf(why, len, "no XRT emulation \"%s\": noop, sw_emu or hw_emu",
			 xrt_emulation());
		return -ENOENT;
	}
	find_root();
	root = getenv("XILINX_XRT");
	if (!root || !root[0]) {
		snprintf(why, len, "XILINX_XRT is not set: set the option root to the folder above XRT's lib");
		return -ENOENT;
	}
	snprintf(path, sizeof(path), "%s/lib/%s", root, shim_name());
	if (access(path, R_OK)) {
		snprintf(why, len, "XRT's driver part is missing: %s: %s (option root, or XILINX_XRT)", path,
			 strerror(errno));
		return -ENOENT;
	}
	/* Global, as XRT itself opens it: it finds the calls by their names. */
	shim = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!shim) {
		snprintf(why, len, "XRT's driver part can't be opened: %s", dlerror());
		return -ENOEXEC;
	}
	xrt.probe = (__typeof__(xrt.probe))dlsym(shim, "xclProbe");
	xrt.info = (__typeof__(xrt.info))dlsym(shim, "xclGetDeviceInfo2");
	return 0;
}

/* NULL, or the name if there is no such call. */
static const char *take(const char *name, void **call)
{
	*call = dlsym(library, name);
	return *call ? NULL : name;
}

int xrt_api_open(const char *root, const char *emulation, char *why, size_t len)
{
	const char *missing = NULL;
	int err;

	if (library)
		return 0;
	/* XRT looks at the environment once, so before it is there. */
	if (emulation)
		setenv("XCL_EMULATION_MODE", emulation, 1);
	if (root)
		setenv("XILINX_XRT", root, 1);
	library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(why, len, "no XRT: install it (Debian: libxrt1): %s", dlerror());
		return -ENOENT;
	}
#define X(name) missing = missing ? missing : take("xrt" #name, (void **)&xrt.name)
	XRT_CALLS(X);
#undef X
	err = missing ? -ENOEXEC : open_shim(why, len);
	if (missing)
		snprintf(why, len, LIBRARY " has no %s: it is too old", missing);
	if (!err)
		return 0;
	xrt_api_close();
	dlclose(library);
	library = NULL;
	memset(&xrt, 0, sizeof(xrt));
	return err;
}

void xrt_api_close(void)
{
	char link[sizeof(made) + 8];

	if (!made[0])
		return;
	/* The libraries have been opened, and what else is below lib is not ours. */
	snprintf(link, sizeof(link), "%s/lib", made);
	unlink(link);
	rmdir(made);
	made[0] = '\0';
	unsetenv("XILINX_XRT");
}

int xrt_errno(void)
{
	int err = errno;

	return err > 0 && err < 4096 ? -err : -EIO;
}
