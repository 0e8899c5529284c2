// SPDX-License-Identifier: MIT
#include "daemon/kernels/manifest.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct where {
	char *error;
	size_t len;
};

static int fail(struct where *w, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(struct where *w, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->error, w->len, fmt, ap);
	va_end(ap);
	return err;
}

/* Every key of `obj` must be in `known`: a misspelt one is not a default. */
static int check_keys(struct where *w, const char *what, json_t *obj, const char *const *known)
{
	const char *key;
	json_t *value;

	if (!json_is_object(obj))
		return fail(w, -EINVAL, "%s is not an object", what);
	json_object_foreach(obj, key, value) {
		const char *const *k = known;

		while (*k && strcmp(*k, key))
			k++;
		if (!*k)
			return fail(w, -EINVAL, "%s has an unknown key '%s'", what, key);
	}
	return 0;
}

/* A string of 1..max bytes of printable ASCII. */
static int get_string(struct where *w, const char *what, json_t *obj, const char *key, size_t max,
		      const char **out)
{
	const char *s = json_string_value(json_object_get(obj, key));
	size_t n;

	if (!s)
		return fail(w, -EINVAL, "%s needs a string '%s'", what, key);
	n = json_string_length(json_object_get(obj, key));
	if (!n || n > max)
		return fail(w, -EINVAL, "%s: '%s' must have 1 to %zu bytes", what, key, max);
	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] >= 0x7f)
			return fail(w, -EINVAL, "%s: '%s' has a byte that is not printable ASCII",
				    what, key);
	*out = s;
	return 0;
}

int manifest_kind(const char *name, size_t len, uint32_t *kind)
{
	static const char *const kinds[] = {
		[ARAX_DEVICE_CPU] = "cpu",   [ARAX_DEVICE_OPENCL] = "opencl",
		[ARAX_DEVICE_CUDA] = "cuda", [ARAX_DEVICE_HIP] = "hip",
		[ARAX_DEVICE_XRT] = "xrt",   [ARAX_DEVICE_SIM] = "sim",
	};

	for (uint32_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strlen(kinds[i]) == len && !memcmp(kinds[i], name, len)) {
			*kind = i;
			return 0;
		}
	return -EINVAL;
}

/* An optional string that is one of two words; *out is 1 for the second. */
static int get_choice(struct where *w, const char *what, json_t *obj, const char *key,
		      const char *first, const char *second, int *out)
{
	json_t *value = json_object_get(obj, key);
	const char *s = json_string_value(value);

	if (!value)
		return 0;
	if (s && !strcmp(s, first))
		*out = 0;
	else if (s && !strcmp(s, second))
		*out = 1;
	else
		return fail(w, -EINVAL, "%s: '%s' must be \"%s\" or \"%s\"", what, key, first, second);
	return 0;
}

/*
 * Streams are these devices', and so is the choice.  A worker has one implementation, and none
 * that the driver doesn't compile.
 */
static int check_special(struct where *w, const struct manifest_kernel *k,
			 const struct manifest_impl *impl)
{
	const char *what = impl->host ? "\"entry\": \"host\"" : "\"devices\": \"gpus\"";

	if (impl->kind != ARAX_DEVICE_OPENCL && impl->kind != ARAX_DEVICE_CUDA &&
	    impl->kind != ARAX_DEVICE_HIP)
		return fail(w, -EINVAL, "%s: %s is for the kinds opencl, cuda and hip", k->sig.name,
			    what);
	if (k->addressing != KERNEL_ADDRESSING_LAUNCH)
		return fail(w, -EINVAL, "%s: %s needs \"addressing\": \"launch\"", k->sig.name, what);
	return 0;
}

static int parse_impl(struct where *w, struct manifest_kernel *k, json_t *obj)
{
	static const char *const known[] = { "kind", "file", "symbol", "entry", "devices", NULL };
	struct manifest_impl *impl = &k->impls[k->nr_impls];
	const char *kind, *what = k->sig.name;
	int err = check_keys(w, what, obj, known), host = 0, gpus = 0;

	if (!err)
		err = get_string(w, what, obj, "kind", 16, &kind);
	if (!err)
		err = get_string(w, what, obj, "file", 255, &impl->file);
	if (!err)
		err = get_string(w, what, obj, "symbol", 255, &impl->symbol);
	if (!err)
		err = get_choice(w, what, obj, "entry", "device", "host", &host);
	if (!err)
		err = get_choice(w, what, obj, "devices", "any", "gpus", &gpus);
	if (err)
		return err;
	impl->host = host;
	impl->gpus = gpus;
	if (manifest_kind(kind, strlen(kind), &impl->kind))
		return fail(w, -EINVAL, "%s: unknown kind '%s'", what, kind);
	if (strchr(impl->file, '/') || impl->file[0] == '.')
		return fail(w, -EINVAL, "%s: file '%s' is not a plain name in the manifest's folder",
			    what, impl->file);
	for (uint32_t i = 0; i < k->nr_impls; i++)
		if (k->impls[i].kind == impl->kind && !k->impls[i].host && !k->impls[i].gpus)
			return fail(w, -EINVAL, "%s: no device would take this implementation of kind '%s': the one before it is for all",
				    what, kind);
	err = host || gpus ? check_special(w, k, impl) : 0;
	if (!err)
		k->nr_impls++;
	return err;
}

static int add_factor(struct where *w, struct manifest_kernel *k, json_t *factor)
{
	const char *text = json_string_value(factor);
	char why[128];
	int err;

	if (!text)
		return fail(w, -EINVAL, "%s: work: 'product' is of strings", k->sig.name);
	err = steps_times(&k->work.steps, &k->sig, text, why, sizeof(why));
	return err ? fail(w, err, "%s: work: 'product' %s", k->sig.name, why) : 0;
}

/* One sum, which need not be there. */
static int get_sum(struct where *w, struct manifest_kernel *k, json_t *obj, const char *key,
		   struct steps *sum)
{
	char why[128];
	const char *text;
	int err;

	if (!json_object_get(obj, key))
		return 0;
	err = get_string(w, k->sig.name, obj, key, STEPS_TEXT, &text);
	if (err)
		return err;
	err = steps_times(sum, &k->sig, text, why, sizeof(why));
	return err ? fail(w, err, "%s: '%s' %s", k->sig.name, key, why) : 0;
}

static int get_most(struct where *w, struct manifest_kernel *k, json_t *obj, const char *key,
		    uint64_t *most)
{
	json_t *value = json_object_get(obj, key);

	if (!json_is_integer(value) || json_integer_value(value) < 1)
		return fail(w, -EINVAL, "%s: work needs an integer '%s' of at least 1",
			    k->sig.name, key);
	*most = (uint64_t)json_integer_value(value);
	return 0;
}

/* What a launch may be at most, where nothing could end it. */
static int parse_work(struct where *w, struct manifest_kernel *k, json_t *obj)
{
	static const char *const known[] = { "product", "most", "gpus", "busy", NULL };
	json_t *product, *factor;
	size_t i;
	int err = obj ? check_keys(w, "work", obj, known) : 0;

	if (!obj || err)
		return err;
	if (k->addressing != KERNEL_ADDRESSING_LAUNCH)
		return fail(w, -EINVAL, "%s: \"work\" needs \"addressing\": \"launch\": in a worker a launch ends by its time",
			    k->sig.name);
	product = json_object_get(obj, "product");
	if (!json_is_array(product) || !json_array_size(product))
		return fail(w, -EINVAL, "%s: work needs an array 'product'", k->sig.name);
	err = get_most(w, k, obj, "most", &k->work.most);
	k->work.most_gpu = k->work.most;
	if (!err && json_object_get(obj, "gpus"))
		err = get_most(w, k, obj, "gpus", &k->work.most_gpu);
	if (!err)
		err = get_sum(w, k, obj, "busy", &k->work.busy);
	if (err)
		return err;
	json_array_foreach(product, i, factor) {
		err = add_factor(w, k, factor);
		if (err)
			return err;
	}
	return 0;
}

static int parse_kernel(struct where *w, struct manifest *m, size_t index, json_t *obj)
{
	static const char *const known[] = { "signature", "addressing", "split", "parts",
					     "overlap", "work", "size", "implementations", NULL };
	struct manifest_kernel *k = &m->kernels[index];
	int data = 1, split = 0, apart = 0, err;
	const char *text;
	char what[32], why[256];
	json_t *impls, *impl;
	size_t i;

	snprintf(what, sizeof(what), "kernel %zu", index);
	err = check_keys(w, what, obj, known);
	if (!err)
		err = get_string(w, what, obj, "signature", 1024, &text);
	if (err)
		return err;
	err = signature_parse(&k->sig, text, why, sizeof(why));
	if (err)
		return fail(w, err, "%s: signature: %s", what, why);
	for (i = 0; i < index; i++)
		if (!strcmp(m->kernels[i].sig.name, k->sig.name))
			return fail(w, -EINVAL, "%s stands here twice", k->sig.name);
	err = get_choice(w, k->sig.name, obj, "addressing", "launch", "data", &data);
	if (!err)
		err = get_choice(w, k->sig.name, obj, "split", "none", "groups", &split);
	if (!err)
		err = get_choice(w, k->sig.name, obj, "overlap", "any", "none", &apart);
	if (err)
		return err;
	k->addressing = data ? KERNEL_ADDRESSING_DATA : KERNEL_ADDRESSING_LAUNCH;
	k->split = split;
	k->apart = apart;
	if (apart && data)
		return fail(w, -EINVAL, "%s: \"overlap\" needs \"addressing\": \"launch\": of a worker's ranges araxd compares no addresses",
			    k->sig.name);
	err = parse_work(w, k, json_object_get(obj, "work"));
	if (!err)
		err = get_sum(w, k, obj, "size", &k->size);
	if (!err)
		err = get_sum(w, k, obj, "parts", &k->parts);
	if (err)
		return err;
	if (k->parts.nr && json_object_get(obj, "split"))
		return fail(w, -EINVAL, "%s has 'parts', which stand in the place of 'split'", k->sig.name);
	/* Else there would be the client's, and on cores others. */
	if (k->parts.nr && strcmp(k->parts.text, "groups") &&
	    (steps_name_groups(&k->work.steps) || steps_name_groups(&k->size)))
		return fail(w, -EINVAL, "%s: 'work' and 'size' may name groups if 'parts' is \"groups\" alone",
			    k->sig.name);
	k->split |= k->parts.nr;

	impls = json_object_get(obj, "implementations");
	if (!json_is_array(impls) || !json_array_size(impls))
		return fail(w, -EINVAL, "%s needs an array 'implementations'", k->sig.name);
	if (json_array_size(impls) > MANIFEST_MAX_IMPLS)
		return fail(w, -E2BIG, "%s has more than %d implementations", k->sig.name,
			    MANIFEST_MAX_IMPLS);
	json_array_foreach(impls, i, impl) {
		err = parse_impl(w, k, impl);
		if (err)
			return err;
	}
	return 0;
}

static int parse_root(struct where *w, struct manifest *m, json_t *root)
{
	static const char *const known[] = { "library", "version", "kernels", NULL };
	json_t *kernels, *kernel;
	size_t i;
	int err = check_keys(w, "manifest", root, known);

	if (!err)
		err = get_string(w, "manifest", root, "library", 63, &m->library);
	if (!err)
		err = get_string(w, "manifest", root, "version", 63, &m->version);
	if (err)
		return err;
	kernels = json_object_get(root, "kernels");
	if (!json_is_array(kernels))
		return fail(w, -EINVAL, "manifest needs an array 'kernels'");
	m->nr_kernels = json_array_size(kernels);
	if (m->nr_kernels > REGISTRY_MAX_KERNELS)
		return fail(w, -E2BIG, "manifest has more than %d kernels", REGISTRY_MAX_KERNELS);
	m->kernels = calloc(m->nr_kernels + 1, sizeof(*m->kernels));
	if (!m->kernels)
		return fail(w, -ENOMEM, "out of memory");
	json_array_foreach(kernels, i, kernel) {
		err = parse_kernel(w, m, i, kernel);
		if (err)
			return err;
	}
	return 0;
}

int manifest_parse(struct manifest *m, const char *text, size_t bytes, char *error, size_t len)
{
	struct where w = { error, len };
	json_error_t je;
	int err;

	memset(m, 0, sizeof(*m));
	m->json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &je);
	if (!m->json)
		return fail(&w, -EINVAL, "line %d, column %d: %s", je.line, je.column, je.text);
	err = parse_root(&w, m, m->json);
	if (err)
		manifest_free(m);
	return err;
}

void manifest_free(struct manifest *m)
{
	json_decref(m->json);
	free(m->kernels);
	memset(m, 0, sizeof(*m));
}
