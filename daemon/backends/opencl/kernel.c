// SPDX-License-Identifier: MIT
/*
 * A kernel on a device: that it takes what its signature says is checked here,
 * once, and not by whoever launches it.  The convention stands in docs/kernels-reference.md.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/opencl/opencl.h"

/* OpenCL C's name of a type, and another that drivers give for it. */
static const struct {
	const char *type, *name, *other;
} names[] = {
	{ "i8", "char", "signed char" }, { "u8", "uchar", "unsigned char" },
	{ "i16", "short", "signed short" }, { "u16", "ushort", "unsigned short" },
	{ "i32", "int", "signed int" }, { "u32", "uint", "unsigned int" },
	{ "i64", "long", "signed long" }, { "u64", "ulong", "unsigned long" },
	{ "f32", "float", "float" }, { "f64", "double", "double" },
};

/* One argument as the table has it. */
struct arg {
	bool known;
	char space;
	bool constant;
	char type[128];
};

/*
 * @line is at its tab, of which check_args() has counted as many as it asks for.  What else is written
 * there is another process's word: one that is not what it says it is takes nothing from its neighbours.
 */
static const char *next_arg(const char *line, struct arg *a)
{
	const char *end = line + 1 + strcspn(line + 1, "\t\n"), *colon;

	memset(a, 0, sizeof(*a));
	line++;
	a->known = *line != '?';
	if (end - line < 2)
		return end;
	a->space = *line;
	line += 2;
	colon = line + strcspn(line, ":\t\n");
	snprintf(a->type, sizeof(a->type), "%.*s", (int)(colon - line), line);
	a->constant = colon[0] == ':' && colon[1] == 'c';
	return end;
}

/* "float" or "float*", with or without the space that some put before the star. */
static bool type_is(const struct arg *a, const char *type, bool pointer)
{
	size_t n = strlen(a->type);

	if (pointer) {
		if (!n || a->type[n - 1] != '*')
			return false;
		n--;
		while (n && a->type[n - 1] == ' ')
			n--;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i].type, type))
			return (n == strlen(names[i].name) && !memcmp(a->type, names[i].name, n)) ||
			       (n == strlen(names[i].other) && !memcmp(a->type, names[i].other, n));
	return false;
}

static const char *opencl_type(const char *type)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i].type, type))
			return names[i].name;
	return type;
}

struct checking {
	const struct arax_backend_kernel *desc;
	const char *line;
	uint32_t nr;
};

/* In the log, and for who submits it. */
static __attribute__((format(printf, 1, 2))) void refuse(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	opencl_log(ARAX_LOG_ERR, "%s", text);
	opencl_explain("%s", text);
}

static int mismatch(const struct checking *c, const struct arg *a, const char *want)
{
	refuse("%s: %s: argument %u is \"%s%s%s\", must be \"%s\" for %s", c->desc->file,
	       c->desc->symbol, c->nr,
	       a->space == 'g' ? "__global " : a->space == 'l' ? "__local " :
	       a->space == 'c' ? "__constant " : "",
	       a->constant ? "const " : "", a->type, want, c->desc->signature);
	return -ENOEXEC;
}

static int check_pointer(struct checking *c, const char *type, bool constant, bool writable)
{
	struct arg a;
	char want[64];

	c->line = next_arg(c->line, &a);
	c->nr++;
	snprintf(want, sizeof(want), "__global %s%s*", constant ? "const " : "", opencl_type(type));
	if (a.known && (a.space != 'g' || !type_is(&a, type, true) || (constant && !a.constant) ||
			(writable && a.constant)))
		return mismatch(c, &a, want);
	return 0;
}

static int check_plain(struct checking *c, const char *type)
{
	struct arg a;

	c->line = next_arg(c->line, &a);
	c->nr++;
	if (a.known && (a.space != 'p' || !type_is(&a, type, false)))
		return mismatch(c, &a, opencl_type(type));
	return 0;
}

static int check_args(struct opencl_kernel *k, const struct arax_backend_kernel *desc,
		      const char *line)
{
	struct checking c = { .desc = desc, .line = line };
	uint32_t wanted = 2 * k->params.nr_ranges + k->params.nr_plain, has = 0;
	int err = 0;

	for (const char *p = line; *p && *p != '\n'; p++)
		has += *p == '\t';
	k->has_result = has == wanted + 1;
	if (has != wanted && has != wanted + 1) {
		refuse("%s: %s has %u arguments, must have %u (a pointer and a length for each range, the plain ones), or one more for its result, for %s",
		       desc->file, desc->symbol, has, wanted, desc->signature);
		return -ENOEXEC;
	}
	for (uint32_t i = 0; !err && i < k->params.nr_ranges; i++) {
		const struct param *p = &k->params.ranges[i];

		err = check_pointer(&c, p->type->name, !p->out, p->out);
		if (!err)
			err = check_plain(&c, "u64");
	}
	for (uint32_t i = 0; !err && i < k->params.nr_plain; i++)
		err = check_plain(&c, k->params.plain[i].type->name);
	if (!err && k->has_result)
		err = check_pointer(&c, "i32", false, true);
	return err;
}

/* By their sizes: what the table may not know, the driver does. */
static cl_int try_args(const struct opencl_kernel *k, cl_kernel kernel, cl_mem result, uint32_t *nr)
{
	const uint64_t zero = 0;
	cl_int err = CL_SUCCESS;

	*nr = 0;
	for (uint32_t i = 0; !err && i < k->params.nr_ranges; i++) {
		err = cl.SetKernelArg(kernel, (*nr)++, sizeof(cl_mem), NULL);
		if (!err)
			err = cl.SetKernelArg(kernel, (*nr)++, sizeof(zero), &zero);
	}
	for (uint32_t i = 0; !err && i < k->params.nr_plain; i++)
		err = cl.SetKernelArg(kernel, (*nr)++, k->params.plain[i].type->size, &zero);
	if (!err && k->has_result)
		err = cl.SetKernelArg(kernel, (*nr)++, sizeof(cl_mem), result ? &result : NULL);
	return err;
}

static int open_lanes(struct opencl_device *d, struct opencl_kernel *k,
		      const struct arax_backend_kernel *desc)
{
	uint32_t nr;
	cl_int err;

	for (; k->nr_opened < d->nr_lanes * ARAX_LANE_DEPTH; k->nr_opened++) {
		struct opencl_lane *lane = &d->lanes[k->nr_opened / ARAX_LANE_DEPTH];
		cl_kernel kernel = cl.CreateKernel(k->program->program, desc->symbol, &err);

		if (err) {
			opencl_log(ARAX_LOG_ERR, "%s: %s: %s", desc->file, desc->symbol,
				   opencl_error_name(err));
			return opencl_check(d, err);
		}
		k->lanes[k->nr_opened / ARAX_LANE_DEPTH][k->nr_opened % ARAX_LANE_DEPTH] = kernel;
		err = try_args(k, kernel, lane->launches[0].result_mem, &nr);
		if (!err && k->has_result && d->memory == OPENCL_SVM)
			err = cl.SetKernelArgSVMPointer(kernel, nr - 1, lane->launches[0].result);
		if (err) {
			k->nr_opened++;
			refuse("%s: %s: argument %u: %s, for %s", desc->file, desc->symbol, nr,
			       opencl_error_name(err), desc->signature);
			return -ENOEXEC;
		}
	}
	k->max_group = d->max_group;
	cl.GetKernelWorkGroupInfo(k->lanes[0][0], d->id, CL_KERNEL_WORK_GROUP_SIZE,
				  sizeof(k->max_group), &k->max_group, NULL);
	return 0;
}

static void free_kernel(struct opencl_kernel *k)
{
	free((char *)k->desc.file);
	free((char *)k->desc.symbol);
	free((char *)k->desc.signature);
	free(k);
}

static struct opencl_kernel *make_kernel(const struct arax_backend_kernel *desc)
{
	struct opencl_kernel *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->desc = (struct arax_backend_kernel){
		.size = sizeof(k->desc), .flags = desc->flags, .fd = -1, .file = strdup(desc->file),
		.symbol = strdup(desc->symbol), .signature = strdup(desc->signature),
	};
	snprintf(k->name, sizeof(k->name), "%s", desc->symbol);
	if (k->desc.file && k->desc.symbol && k->desc.signature)
		return k;
	free_kernel(k);
	return NULL;
}

/* (entered) Of a program; what there is by then is put_parts()'s. */
static int open_kernel(struct opencl_device *d, struct opencl_kernel *k,
		       const struct arax_backend_kernel *desc)
{
	const char *line = opencl_program_line(k->program, desc->symbol);
	int err;

	if (!line) {
		refuse("%s: has no kernel %s", desc->file, desc->symbol);
		return -ENOENT;
	}
	err = check_args(k, desc, line);
	return err ? err : open_lanes(d, k, desc);
}

/* (entered) */
static void put_parts(struct opencl_device *d, struct opencl_kernel *k)
{
	opencl_kernel_close(k);
	if (k->program)
		opencl_program_put(d, k->program);
	else
		opencl_stream_unload(d, k);
}

/* (entered) */
static int load(struct opencl_device *d, const struct arax_backend_kernel *desc,
		struct opencl_kernel *k)
{
	int err = params_parse(&k->params, desc->signature);

	if (err)
		return err;
	if (desc->flags & ARAX_KERNEL_GPUS && !d->is_gpu)
		err = -EOPNOTSUPP;
	else if (desc->flags & ARAX_KERNEL_STREAM)
		err = opencl_stream_load(d, desc, k);
	else
		err = opencl_program_get(d, desc, &k->program);
	if (err)
		return err;
	if (k->program)
		err = open_kernel(d, k, desc);
	if (err) {
		put_parts(d, k);
		return err;
	}
	pthread_mutex_lock(&d->programs_lock);
	k->next = d->kernels;
	d->kernels = k;
	pthread_mutex_unlock(&d->programs_lock);
	return 0;
}

int opencl_kernel_load(struct opencl_device *d, const struct arax_backend_kernel *desc,
		       struct opencl_kernel **kernel)
{
	struct opencl_kernel *k = make_kernel(desc);
	int err;

	if (!k)
		return -ENOMEM;
	err = opencl_enter(d);
	if (!err) {
		err = load(d, desc, k);
		opencl_leave(d);
	}
	if (err)
		free_kernel(k);
	else
		*kernel = k;
	return err;
}

void opencl_kernel_unload(struct opencl_device *d, struct opencl_kernel *k)
{
	struct opencl_kernel **link = &d->kernels;

	/* Lost or not. */
	pthread_rwlock_rdlock(&d->context_lock);
	pthread_mutex_lock(&d->programs_lock);
	while (*link != k)
		link = &(*link)->next;
	*link = k->next;
	pthread_mutex_unlock(&d->programs_lock);
	put_parts(d, k);
	opencl_leave(d);
	free_kernel(k);
}

void opencl_kernel_close(struct opencl_kernel *k)
{
	for (; k->nr_opened; k->nr_opened--) {
		uint32_t i = k->nr_opened - 1;

		cl.ReleaseKernel(k->lanes[i / ARAX_LANE_DEPTH][i % ARAX_LANE_DEPTH]);
	}
}

int opencl_kernel_again(struct opencl_device *d, struct opencl_kernel *k)
{
	int err = 0;

	/* A function puts its work onto whatever queue it is given. */
	if (!k->program)
		return 0;
	if (!k->program->program)
		err = opencl_program_again(d, &k->desc, k->program);
	return err ? err : open_lanes(d, k, &k->desc);
}
