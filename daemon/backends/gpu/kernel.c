// SPDX-License-Identifier: MIT
/*
 * A kernel on a device: that it takes what its signature says is checked here, once,
 * and not by whoever launches it.  The convention stands in docs/kernels-reference.md.
 *
 * PTX has the types; of other images newer CUDA drivers tell the sizes; HIP tells nothing,
 * and there the manifest is believed.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/gpu/gpu.h"

#define POINTER 'q'
#define RESULT 'r'

/* What stands in PTX for a type of the signature. */
static char letter_of(const struct param_type *t)
{
	if (t->name[0] == 'f')
		return t->size == 4 ? 'f' : 'd';
	return t->size == 1 ? 'b' : t->size == 2 ? 'h' : t->size == 4 ? 'w' : 'q';
}

/* The letters that the signature asks for, without the result's. */
static void wanted(const struct params *p, char letters[GPU_PTX_PARAMS])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->nr_ranges; i++) {
		letters[n++] = POINTER;
		letters[n++] = 'q';
	}
	for (uint32_t i = 0; i < p->nr_plain; i++)
		letters[n++] = letter_of(p->plain[i].type);
	letters[n] = '\0';
}

static uint32_t letter_bytes(char letter)
{
	switch (letter) {
	case 'b':
		return 1;
	case 'h':
		return 2;
	case 'w':
	case 'f':
		return 4;
	default:
		return 8;
	}
}

static const char *letter_name(char letter)
{
	switch (letter) {
	case 'b':
		return "8-bit integer";
	case 'h':
		return "16-bit integer";
	case 'w':
		return "32-bit integer";
	case 'q':
		return "pointer or 64-bit integer";
	case 'f':
		return "float";
	case 'd':
		return "double";
	case RESULT:
		return "arax_gpu_result";
	default:
		return "struct or array";
	}
}

/* In the log, and for who submits it. */
static __attribute__((format(printf, 2, 3))) void refuse(const struct gpu_device *d,
							 const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	gpu_log(d->stack, ARAX_LOG_ERR, "%s", text);
	gpu_explain(d->stack, "%s", text);
}

static int wrong_number(struct gpu_device *d, const struct arax_backend_kernel *desc, size_t has,
			size_t want)
{
	refuse(d, "%s: %s has %zu parameters, must have %zu (a pointer and a length for each range, the plain ones), or one more for its result, for %s",
	       desc->file, desc->symbol, has, want, desc->signature);
	return -ENOEXEC;
}

static int check_text(struct gpu_device *d, struct gpu_kernel *k,
		      const struct arax_backend_kernel *desc, const char *has, const char *want)
{
	size_t n = strlen(want), nr = strlen(has);

	if (nr != n && nr != n + 1)
		return wrong_number(d, desc, nr, n);
	for (size_t i = 0; i < nr; i++) {
		char w = i < n ? want[i] : POINTER;

		if (has[i] == w || (i == n && has[i] == RESULT))
			continue;
		refuse(d, "%s: %s: parameter %zu is of type \"%s\", must be \"%s\" for %s",
		       desc->file, desc->symbol, i + 1, letter_name(has[i]), letter_name(w),
		       desc->signature);
		return -ENOEXEC;
	}
	k->tells = nr == n ? GPU_TELLS_NOTHING : has[n] == RESULT ? GPU_TELLS_ALL : GPU_TELLS_HOST;
	return 0;
}

static int check_sizes(struct gpu_device *d, struct gpu_kernel *k,
		       const struct arax_backend_kernel *desc, const char *want)
{
	uint32_t n = (uint32_t)strlen(want), nr = 0;
	int bytes;

	for (;; nr++) {
		d->driver->function_param(k->function, nr, &bytes);
		if (bytes == -EOPNOTSUPP)
			return 0;
		if (!bytes)
			break;
	}
	if (nr != n && nr != n + 1)
		return wrong_number(d, desc, nr, n);
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t must = letter_bytes(i < n ? want[i] : POINTER);

		d->driver->function_param(k->function, i, &bytes);
		if ((uint32_t)bytes == must || (i == n && bytes == sizeof(struct gpu_result)))
			continue;
		refuse(d, "%s: %s: parameter %u has %d bytes, must have %u for %s", desc->file,
		       desc->symbol, i + 1, bytes, must, desc->signature);
		return -ENOEXEC;
	}
	/* @bytes: of the last one. */
	k->tells = nr == n ? GPU_TELLS_NOTHING :
		   bytes == sizeof(struct gpu_result) ? GPU_TELLS_ALL : GPU_TELLS_HOST;
	return 0;
}

static bool is_ptx(const struct gpu_module *m)
{
	return strlen(m->image) == m->bytes;
}

static int check_params(struct gpu_device *d, struct gpu_kernel *k,
			const struct arax_backend_kernel *desc)
{
	char want[GPU_PTX_PARAMS], has[GPU_PTX_PARAMS];
	int err;

	wanted(&k->params, want);
	if (!is_ptx(k->module))
		return check_sizes(d, k, desc, want);
	err = gpu_ptx_params(k->module->image, desc->symbol, has);
	if (err)
		return err == -ENOENT ? 0 : wrong_number(d, desc, GPU_PTX_PARAMS, strlen(want));
	return check_text(d, k, desc, has, want);
}

int gpu_kernel_reload(struct gpu_device *d, struct gpu_kernel *k)
{
	if (!k->module)
		return 0;
	return gpu_check(d, d->driver->function_get(k->module->module, k->name, &k->function),
			 k->name);
}

static void insert(struct gpu_device *d, struct gpu_kernel *k)
{
	k->next = d->kernels;
	d->kernels = k;
}

/* (entered, modules_lock) */
static int load(struct gpu_device *d, struct gpu_kernel *k, const struct arax_backend_kernel *desc)
{
	struct gpu_cost cost = { 0 };
	int err;

	if (desc->flags & ARAX_KERNEL_STREAM) {
		err = gpu_stream_load(d, desc, k);
		if (!err)
			insert(d, k);
		return err;
	}
	err = gpu_module_get(d, desc, &k->module);
	if (err)
		return err;
	err = gpu_kernel_reload(d, k);
	if (err == -ENOENT)
		refuse(d, "%s: has no kernel %s: is it extern \"C\" __global__?", desc->file,
		       desc->symbol);
	if (!err)
		err = check_params(d, k, desc);
	if (!err)
		err = gpu_check(d, d->driver->function_cost(k->function, &cost), desc->symbol);
	if (err) {
		gpu_module_put(d, k->module, true);
		return err;
	}
	k->max_group = cost.max_group && cost.max_group < d->limits.max_group ? cost.max_group :
										d->limits.max_group;
	gpu_log(d->stack, ARAX_LOG_DEBUG, "%s: %s: %u registers, %u bytes shared, %u local, blocks of up to %u threads, %u of 256 at once on a unit",
		d->name, desc->symbol, cost.registers, cost.shared, cost.local, k->max_group,
		cost.blocks);
	insert(d, k);
	return 0;
}

int gpu_kernel_load(struct gpu_device *d, const struct arax_backend_kernel *desc,
		    struct gpu_kernel **kernel)
{
	struct gpu_kernel *k = calloc(1, sizeof(*k));
	int err;

	if (!k)
		return -ENOMEM;
	err = params_parse(&k->params, desc->signature);
	/* The name is asked for again in a new context: it must be whole. */
	if (!err && (size_t)snprintf(k->name, sizeof(k->name), "%s", desc->symbol) >=
		    sizeof(k->name)) {
		gpu_log(d->stack, ARAX_LOG_ERR, "%s: symbol %s is longer than %zu bytes", desc->file,
			desc->symbol, sizeof(k->name) - 1);
		err = -ENAMETOOLONG;
	}
	if (!err)
		err = gpu_enter(d);
	if (!err) {
		pthread_mutex_lock(&d->modules_lock);
		err = load(d, k, desc);
		pthread_mutex_unlock(&d->modules_lock);
		gpu_leave(d);
	}
	if (err) {
		free(k);
		return err;
	}
	*kernel = k;
	return 0;
}

void gpu_kernel_unload(struct gpu_device *d, struct gpu_kernel *k)
{
	struct gpu_kernel **link = &d->kernels;
	/* Broken as well: in a new one it would be loaded anew meanwhile. */
	int err = gpu_enter_broken(d);
	bool whole = !err && !__atomic_load_n(&d->broken, __ATOMIC_ACQUIRE);

	/* In a broken context there is nothing to unload. */
	pthread_mutex_lock(&d->modules_lock);
	while (*link != k)
		link = &(*link)->next;
	*link = k->next;
	if (k->module)
		gpu_module_put(d, k->module, whole);
	else
		gpu_stream_unload(d, k, whole);
	pthread_mutex_unlock(&d->modules_lock);
	if (!err)
		gpu_leave(d);
	free(k);
}
