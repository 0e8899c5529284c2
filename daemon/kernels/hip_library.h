/* SPDX-License-Identifier: MIT */
/*
 * hip_library.h - vendors' libraries that are built on HIP's runtime
 *
 * A machine may have several versions of ROCm, and what a library is given (streams, memory) is of
 * araxd's runtime: to another one it is nothing.
 */
#ifndef ARAX_KERNELS_HIP_LIBRARY_H
#define ARAX_KERNELS_HIP_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>

#include <arax/stream.h>

/* NULL: an older araxd, or one whose driver is not HIP's. */
static inline void *hip_call(const struct arax_stream *s, const char *name)
{
	return s->size < sizeof(*s) || !s->driver ? NULL : dlsym(s->driver, name);
}

/* By what it is linked with, which dlsym() looks at, too. */
static inline bool hip_library_is_of(const struct arax_stream *s, void *library)
{
	void *ours = hip_call(s, "hipStreamQuery");

	return ours && dlsym(library, "hipStreamQuery") == ours;
}

#define HIP_NOT_OURS	"it is of another version of ROCm than the HIP runtime that araxd has opened"

#endif /* ARAX_KERNELS_HIP_LIBRARY_H */
