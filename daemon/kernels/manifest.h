/* SPDX-License-Identifier: MIT */
/*
 * manifest.h - what a kernel library's JSON file says, as structs
 *
 *	{
 *	  "library": "arax-std", "version": "1.0",
 *	  "kernels": [
 *	    { "signature": "vadd(in f32 a[], in f32 b[], out f32 c[], u32 n)",
 *	      "addressing": "launch",		default: "data"
 *	      "split": "groups",		default: "none"
 *	      "parts": "n / 4096 + 1",		default: no other than the split's
 *	      "overlap": "none",		default: "any"
 *	      "size": "n",			default: the work's product, if there is any
 *	      "work": { "product": [ "n" ],	default: no bound
 *			"most": 1000000,
 *			"gpus": 5000000 },	default: as "most"
 *	      "implementations": [
 *	        { "kind": "cpu", "file": "arax-std.so", "symbol": "arax_vadd" },
 *	        { "kind": "opencl", "file": "arax-vendor.so", "symbol": "vendor_vadd",
 *	          "entry": "host",		default: "device"
 *	          "devices": "gpus" } ] } ]	default: "any"
 *	}
 *
 * Of several implementations of a kind, in their order, the first that a device can load is used,
 * and the next one for launches that it is not for.
 *
 * Pure parsing: nothing is opened here.  Unknown keys are refused.  A file is
 * a plain name in the manifest's own folder.
 */
#ifndef ARAX_DAEMON_KERNELS_MANIFEST_H
#define ARAX_DAEMON_KERNELS_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/kernels/registry.h"

struct manifest_impl {
	uint32_t kind;
	const char *file;	/* strings belong to the manifest */
	const char *symbol;
	bool host, gpus;	/* entry, devices */
};

struct manifest_kernel {
	struct signature sig;
	enum kernel_addressing addressing;
	bool split, apart;
	struct kernel_work work;
	struct steps size, parts;
	uint32_t nr_impls;
	struct manifest_impl impls[MANIFEST_MAX_IMPLS];
};

struct manifest {
	void *json;
	const char *library;
	const char *version;
	size_t nr_kernels;
	struct manifest_kernel *kernels;
};

/* ARAX_DEVICE_* of a kind's name of @len bytes.  -EINVAL: there is no such kind. */
int manifest_kind(const char *name, size_t len, uint32_t *kind);

/* -EINVAL or -E2BIG with text in @error; -ENOMEM. */
int manifest_parse(struct manifest *m, const char *text, size_t bytes, char *error, size_t len);
void manifest_free(struct manifest *m);

#endif /* ARAX_DAEMON_KERNELS_MANIFEST_H */
