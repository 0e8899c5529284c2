// SPDX-License-Identifier: MIT
/*
 * By rocBLAS, for HIP devices; opened when a device first asks for it.
 *
 * It ends the process, with all of araxd's clients, where it has no kernels for a device, and where
 * memory of a device that is broken can't be freed: so it must come to neither.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/kernels/blas/rocblas_api.h"
#include "daemon/kernels/hip_library.h"

/* Of ROCm 7, 6 and 5, whose calls are alike. */
static const char *const names[] = { "librocblas.so.5", "librocblas.so.4", "librocblas.so.0", NULL };

#define NO_LIBRARY \
	"no rocBLAS of ROCm 5 to 7 (it comes with ROCm, and has to be where ld.so looks)"

#define BLAS_CALLS(X) \
	X(create, rocblas_create_handle) X(destroy, rocblas_destroy_handle) \
	X(set_stream, rocblas_set_stream) X(set_atomics, rocblas_set_atomics_mode) \
	X(sgemm, rocblas_sgemm) X(dgemm, rocblas_dgemm) X(sgemv, rocblas_sgemv) \
	X(dgemv, rocblas_dgemv) X(dtrsm, rocblas_dtrsm) X(dsyrk, rocblas_dsyrk)

#define HANDLE		rocblas_handle
#define STATUS		int
#define OP_N		ROCBLAS_OP_NONE
#define OP_T		ROCBLAS_OP_TRANSPOSE
#define UPPER		ROCBLAS_UPPER
#define LOWER		ROCBLAS_LOWER
#define LEFT		ROCBLAS_LEFT
#define RIGHT		ROCBLAS_RIGHT
#define UNIT		ROCBLAS_UNIT
#define NON_UNIT	ROCBLAS_NON_UNIT

/* Where rocBLAS looks for kernels: beside itself, or where it is told to. */
static bool has_kernels(void *library, const char *arch)
{
	static const char *const folders[] = { "library", "../rocblas/library", "rocblas/library" };
	static const char *const files[] = {
		"TensileLibrary_lazy_%s.dat", "%s/TensileLibrary_lazy_%s.dat",
		"TensileLibrary_%s.dat", "%s/TensileLibrary_%s.dat",
	};
	const char *told = getenv("ROCBLAS_TENSILE_LIBPATH");
	char base[PATH_MAX], path[2 * PATH_MAX], name[256];
	Dl_info info;

	if (!dladdr(dlsym(library, "rocblas_create_handle"), &info) || !strchr(info.dli_fname, '/'))
		return false;
	snprintf(base, sizeof(base), "%.*s", (int)(strrchr(info.dli_fname, '/') - info.dli_fname),
		 info.dli_fname);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		for (size_t k = 0; k < sizeof(files) / sizeof(files[0]); k++) {
			snprintf(name, sizeof(name), files[k], arch, arch);
			snprintf(path, sizeof(path), "%s/%s/%s", told ? told : base,
				 told ? "" : folders[i], name);
			if (!access(path, R_OK))
				return true;
		}
	return false;
}

static int library_suits(const struct arax_stream *s, void *library, char *why, size_t len)
{
	if (!hip_library_is_of(s, library)) {
		snprintf(why, len, HIP_NOT_OURS);
		return -ENOENT;
	}
	if (has_kernels(library, s->arch))
		return 0;
	snprintf(why, len, "rocBLAS has no kernels for %s", s->arch);
	return -EOPNOTSUPP;
}

#define LIBRARY_SUITS	library_suits

#include "daemon/kernels/blas/gpu_blas.h"

static int code_of(STATUS status)
{
	switch (status) {
	case ROCBLAS_SUCCESS:
	case ROCBLAS_PERF_DEGRADED:
		return 0;
	case ROCBLAS_MEMORY_ERROR:
		return -ENOMEM;
	case ROCBLAS_NOT_IMPLEMENTED:
	case ROCBLAS_EXCLUDED_FROM_BUILD:
	case ROCBLAS_ARCH_MISMATCH:
		return -EOPNOTSUPP;
	default:
		return -EIO;
	}
}

/* Without atomics results are the same each time, as cuBLAS's are. */
static int handle_make(const struct arax_stream *s, HANDLE *handle)
{
	STATUS status = blas.create(handle);

	if (status)
		return code_of(status);
	status = blas.set_stream(*handle, s->stream);
	if (!status)
		status = blas.set_atomics(*handle, ROCBLAS_ATOMICS_NOT_ALLOWED);
	if (status)
		blas.destroy(*handle);
	return code_of(status);
}

/* What a broken device keeps of it goes with the device's context, and a little memory here is lost. */
static void handle_end(const struct arax_stream *s, HANDLE handle)
{
	int (*query)(void *stream) = (int (*)(void *))hip_call(s, "hipStreamQuery");

	/* Nothing runs on it, see arax_stream_close(). */
	if (!query(s->stream))
		blas.destroy(handle);
}
