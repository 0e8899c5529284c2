// SPDX-License-Identifier: MIT
/*
 * A kernel of an .xclbin: that it takes what its signature says is checked when it is
 * loaded, by what the tools wrote into the file.  The convention stands in
 * docs/kernels-reference.md.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/xrt/backend.h"

static const char *const spaces[] = { "a scalar", "in memory", "constant", "local", "a stream" };

struct checking {
	const struct arax_backend_kernel *desc;
	const struct xclbin_kernel *has;
	uint32_t nr;
};

static int mismatch(const struct checking *c, const char *want, uint32_t size)
{
	const struct xclbin_arg *a = &c->has->args[c->nr];

	xrt_log(ARAX_LOG_ERR, "%s: %s: argument %u is %s of %u bytes (\"%s\"), must be %s of %u for %s",
		c->desc->file, c->desc->symbol, c->nr, spaces[a->space], a->size, a->type, want,
		size, c->desc->signature);
	return -ENOEXEC;
}

static int check_range(struct checking *c)
{
	const struct xclbin_arg *a = &c->has->args[c->nr];

	if ((a->space != XCLBIN_GLOBAL && a->space != XCLBIN_CONSTANT) || a->size != 8)
		return mismatch(c, "in memory", 8);
	c->nr++;
	return 0;
}

/*
 * XRT takes an argument off the variadic call by the type's name where it knows that,
 * else by the size.  Of one that it takes for a pointer it would read the memory.
 */
static int check_plain(struct checking *c, const struct param_type *type, enum xrt_pass *pass)
{
	const struct xclbin_arg *a = &c->has->args[c->nr];
	bool is_float = !strcmp(a->type, "float"), is_double = !strcmp(a->type, "double");
	bool is_word = !strcmp(a->type, "int") || !strcmp(a->type, "uint");

	if (a->space != XCLBIN_SCALAR || a->size != type->size || strchr(a->type, '*') ||
	    (is_float && strcmp(type->name, "f32")) || (is_double && strcmp(type->name, "f64")) ||
	    (is_word && type->size != 4))
		return mismatch(c, "a scalar", type->size);
	*pass = is_float       ? XRT_PASS_FLOAT :
		is_double      ? XRT_PASS_DOUBLE :
		a->size == 4   ? XRT_PASS_32 :
				 XRT_PASS_64;
	c->nr++;
	return 0;
}

static int check_args(struct xrt_kernel *k, const struct arax_backend_kernel *desc,
		      const struct xclbin_kernel *has)
{
	static const struct param_type items = { "u64", 8 };
	uint32_t wanted = 2 * k->params.nr_ranges + k->params.nr_plain;
	struct checking c = { .desc = desc, .has = has };
	enum xrt_pass pass;
	int err = 0;

	if (has->nr_args != wanted) {
		xrt_log(ARAX_LOG_ERR, "%s: %s has %u arguments, must have %u (an address and a length for each range, the plain ones) for %s",
			desc->file, desc->symbol, has->nr_args, wanted, desc->signature);
		return -ENOEXEC;
	}
	for (uint32_t i = 0; !err && i < k->params.nr_ranges; i++) {
		err = check_range(&c);
		if (!err)
			err = check_plain(&c, &items, &pass);
	}
	for (uint32_t i = 0; !err && i < k->params.nr_plain; i++)
		err = check_plain(&c, k->params.plain[i].type, &k->pass[i]);
	return err;
}

/*
 * All memory of a device is in one bank, as nobody knows for which argument it will be
 * when it is allocated.  Where a kernel isn't connected to it XRT would quietly give it
 * a copy in another, and leave the results there.
 */
static int check_banks(const struct xrt_device *d, struct xrt_kernel *k,
		       const struct arax_backend_kernel *desc, const struct xclbin_kernel *has)
{
	uint64_t banks = d->loaded == k->image ? 1ull << xrt_bank(d) : k->image->banks;

	k->banks = has->banks;
	if (!k->params.nr_ranges)
		return 0;
	if (!has->banks) {
		xrt_log(ARAX_LOG_ERR, "%s: %s: its arguments have no bank of memory in common: link it with one for all (v++ --connectivity.sp)",
			desc->file, desc->symbol);
		return -ENOEXEC;
	}
	if (!(banks & has->banks)) {
		xrt_log(ARAX_LOG_ERR, "%s: %s: has no bank of memory in common with the file's other kernels (banks %#llx, theirs %#llx): link them with one for all (v++ --connectivity.sp)",
			desc->file, desc->symbol, (unsigned long long)has->banks,
			(unsigned long long)banks);
		return -ENOEXEC;
	}
	return 0;
}

static int check(struct xrt_device *d, struct xrt_kernel *k,
		 const struct arax_backend_kernel *desc)
{
	struct xclbin_kernel has;
	char why[256];
	int err;

	err = xclbin_find(&k->image->xclbin, desc->symbol, &has, why, sizeof(why));
	if (err) {
		xrt_log(ARAX_LOG_ERR, "%s: %s", desc->file, why);
		return err;
	}
	err = check_args(k, desc, &has);
	return err ? err : check_banks(d, k, desc, &has);
}

int xrt_kernel_load(struct xrt_device *d, const struct arax_backend_kernel *desc,
		    struct xrt_kernel **kernel)
{
	struct xrt_kernel *k = calloc(1, sizeof(*k));
	int err;

	if (!k)
		return -ENOMEM;
	snprintf(k->name, sizeof(k->name), "%s", desc->symbol);
	err = params_parse(&k->params, desc->signature);
	if (err) {
		free(k);
		return err;
	}
	pthread_mutex_lock(&d->images_lock);
	err = xrt_image_get(d, desc, &k->image);
	if (err)
		goto out;
	err = check(d, k, desc);
	/* Its file may be in use already, for another. */
	if (!err && d->loaded == k->image)
		err = xrt_kernel_open(d, k);
	if (err) {
		xrt_image_put(d, k->image);
		goto out;
	}
	if (k->params.nr_ranges)
		k->image->banks &= k->banks;
	k->next = k->image->kernels;
	k->image->kernels = k;
out:
	pthread_mutex_unlock(&d->images_lock);
	if (err)
		free(k);
	else
		*kernel = k;
	return err;
}

void xrt_kernel_unload(struct xrt_device *d, struct xrt_kernel *k)
{
	struct xrt_kernel **link = &k->image->kernels;

	pthread_mutex_lock(&d->images_lock);
	xrt_kernel_close(k);
	while (*link != k)
		link = &(*link)->next;
	*link = k->next;
	xrt_image_put(d, k->image);
	pthread_mutex_unlock(&d->images_lock);
	free(k);
}

int xrt_kernel_open(struct xrt_device *d, struct xrt_kernel *k)
{
	int err;

	errno = 0;
	k->handle = xrt.PLKernelOpen(d->handle, k->image->xclbin.uuid, k->name);
	if (k->handle)
		return 0;
	err = xrt_errno();
	xrt_log(ARAX_LOG_ERR, "%s: kernel %s can't be opened: %s; XRT's own words are on standard error",
		d->name, k->name, strerror(-err));
	return xrt_check(d, err);
}

void xrt_kernel_close(struct xrt_kernel *k)
{
	for (uint32_t i = 0; i < XRT_MAX_LANES; i++) {
		if (k->runs[i])
			xrt.RunClose(k->runs[i]);
		k->runs[i] = NULL;
	}
	if (k->handle)
		xrt.KernelClose(k->handle);
	k->handle = NULL;
}
