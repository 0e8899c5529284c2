// SPDX-License-Identifier: MIT
#include "daemon/kernels/registry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/kernels/manifest.h"
#include "daemon/log.h"
#include "libarax/admin/trusted.h"

#define MAX_LIBRARIES 1024	/* files of all manifests */

/* An open library file; kernels of one manifest share it. */
struct library {
	char *path;
	int fd;
};

struct registry {
	uint32_t count;
	uint32_t nr_libraries;
	struct kernel *kernels[REGISTRY_MAX_KERNELS];
	struct library libraries[MAX_LIBRARIES];
};

static void kernel_free(struct kernel *k)
{
	for (uint32_t i = 0; i < k->nr_impls; i++) {
		free(k->impls[i].file);
		free(k->impls[i].symbol);
	}
	free(k->library);
	free(k);
}

/* Back to an earlier state: what a refused manifest had added. */
static void truncate_to(struct registry *r, uint32_t kernels, uint32_t libraries)
{
	while (r->count > kernels)
		kernel_free(r->kernels[--r->count]);
	while (r->nr_libraries > libraries) {
		struct library *l = &r->libraries[--r->nr_libraries];

		close(l->fd);
		free(l->path);
	}
}

struct registry *registry_create(void)
{
	return calloc(1, sizeof(struct registry));
}

void registry_destroy(struct registry *r)
{
	if (!r)
		return;
	truncate_to(r, 0, 0);
	free(r);
}

uint32_t registry_count(const struct registry *r)
{
	return r->count;
}

const struct kernel *registry_at(const struct registry *r, uint32_t index)
{
	return index < r->count ? r->kernels[index] : NULL;
}

const struct kernel *registry_find(const struct registry *r, const char *name)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (!strcmp(r->kernels[i]->sig.name, name))
			return r->kernels[i];
	return NULL;
}

const struct kernel_impl *kernel_impl(const struct kernel *k, uint32_t kind)
{
	for (uint32_t i = 0; i < k->nr_impls; i++)
		if (k->impls[i].kind == kind)
			return &k->impls[i];
	/* What a simulated device takes time for, a CPU does. */
	return kind == ARAX_DEVICE_SIM ? kernel_impl(k, ARAX_DEVICE_CPU) : NULL;
}

const struct kernel_impl *kernel_impl_next(const struct kernel *k, const struct kernel_impl *impl)
{
	const uint32_t kind = impl->kind;

	while (++impl < k->impls + k->nr_impls)
		if (impl->kind == kind)
			return impl;
	return NULL;
}

/* A folder being loaded. */
struct loading {
	struct registry *r;
	const char *folder;
	int fd;
	uint32_t first_library;	/* of the manifest at hand */
	char why[512];
};

static int open_library(struct loading *ld, const char *name, int *fd)
{
	struct registry *r = ld->r;
	struct library *l;
	char why[256], *path;

	if (asprintf(&path, "%s/%s", ld->folder, name) < 0)
		return -ENOMEM;
	for (uint32_t i = ld->first_library; i < r->nr_libraries; i++)
		if (!strcmp(r->libraries[i].path, path)) {
			free(path);
			*fd = r->libraries[i].fd;
			return 0;
		}
	if (r->nr_libraries == MAX_LIBRARIES) {
		snprintf(ld->why, sizeof(ld->why), "more than %d library files", MAX_LIBRARIES);
		free(path);
		return -ENOSPC;
	}
	l = &r->libraries[r->nr_libraries];
	l->fd = trusted_open_file(ld->fd, name, why, sizeof(why));
	if (l->fd < 0) {
		snprintf(ld->why, sizeof(ld->why), "library %s: %s", name, why);
		free(path);
		return l->fd;
	}
	l->path = path;
	r->nr_libraries++;
	*fd = l->fd;
	return 0;
}

static int add_impl(struct loading *ld, struct kernel *k, const struct manifest_impl *mi)
{
	struct kernel_impl *impl = &k->impls[k->nr_impls];
	int err;

	impl->kind = mi->kind;
	impl->host = mi->host;
	impl->gpus = mi->gpus;
	err = open_library(ld, mi->file, &impl->fd);
	if (err)
		return err;
	k->nr_impls++;
	k->kinds |= 1u << mi->kind;
	impl->symbol = strdup(mi->symbol);
	if (asprintf(&impl->file, "%s/%s", ld->folder, mi->file) < 0)
		impl->file = NULL;
	return impl->symbol && impl->file ? 0 : -ENOMEM;
}

static int add_kernel(struct loading *ld, const struct manifest *m,
		      const struct manifest_kernel *mk)
{
	struct registry *r = ld->r;
	const struct kernel *other = registry_find(r, mk->sig.name);
	struct kernel *k;
	int err;

	if (other) {
		snprintf(ld->why, sizeof(ld->why), "kernel %s is already provided by %s",
			 mk->sig.name, other->library);
		return -EEXIST;
	}
	if (r->count == REGISTRY_MAX_KERNELS) {
		snprintf(ld->why, sizeof(ld->why), "more than %d kernels", REGISTRY_MAX_KERNELS);
		return -ENOSPC;
	}
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->index = r->count;
	k->serial = r->count;
	k->addressing = mk->addressing;
	k->split = mk->split;
	k->apart = mk->apart;
	k->sig = mk->sig;
	k->work = mk->work;
	k->parts = mk->parts;
	k->size = mk->size.nr ? mk->size : mk->work.steps;
	if (asprintf(&k->library, "%s %s", m->library, m->version) < 0)
		k->library = NULL;
	err = k->library ? 0 : -ENOMEM;
	for (uint32_t i = 0; !err && i < mk->nr_impls; i++)
		err = add_impl(ld, k, &mk->impls[i]);
	if (err) {
		kernel_free(k);
		return err;
	}
	r->kernels[r->count++] = k;
	return 0;
}

static int load_manifest(struct loading *ld, const char *name)
{
	uint32_t kernels = ld->r->count, libraries = ld->r->nr_libraries;
	struct manifest m = { 0 };
	char *text = NULL;
	size_t bytes = 0;
	int fd, err;

	ld->first_library = libraries;
	ld->why[0] = '\0';
	fd = trusted_open_file(ld->fd, name, ld->why, sizeof(ld->why));
	if (fd < 0) {
		err = fd;
		goto out;
	}
	err = trusted_read(fd, MANIFEST_MAX_BYTES, &text, &bytes);
	close(fd);
	if (err == -E2BIG)
		snprintf(ld->why, sizeof(ld->why), "longer than %u bytes", MANIFEST_MAX_BYTES);
	if (err)
		goto out;
	err = manifest_parse(&m, text, bytes, ld->why, sizeof(ld->why));
	for (size_t i = 0; !err && i < m.nr_kernels; i++)
		err = add_kernel(ld, &m, &m.kernels[i]);
	if (!err)
		log_info("kernel library loaded", log_str("folder", ld->folder),
			 log_str("manifest", name), log_str("library", m.library),
			 log_str("version", m.version), log_u64("kernels", m.nr_kernels));
out:
	if (err) {
		truncate_to(ld->r, kernels, libraries);
		log_warn("kernel library refused", log_str("folder", ld->folder),
			 log_str("manifest", name),
			 log_str("reason", ld->why[0] ? ld->why : strerror(-err)));
	}
	manifest_free(&m);
	free(text);
	return err;
}

static int is_manifest(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return d->d_name[0] != '.' && n > 5 && !strcmp(d->d_name + n - 5, ".json");
}

int registry_load_folder(struct registry *r, const char *path)
{
	struct loading ld = { .r = r, .folder = path };
	uint32_t before = r->count;
	struct dirent **names;
	int n;

	ld.fd = trusted_open_folder(path, ld.why, sizeof(ld.why));
	if (ld.fd < 0) {
		log_warn("kernel folder refused", log_str("folder", path),
			 log_str("reason", ld.why));
		return ld.fd;
	}
	n = scandirat(ld.fd, ".", &names, is_manifest, alphasort);
	if (n < 0) {
		n = -errno;
		log_warn("kernel folder can't be listed", log_str("folder", path), log_errno(n));
		close(ld.fd);
		return n;
	}
	if (!n)
		log_notice("kernel folder has no manifests", log_str("folder", path),
			   log_str("wanted", "files that end in .json"));
	for (int i = 0; i < n; i++) {
		load_manifest(&ld, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	close(ld.fd);
	return (int)(r->count - before);
}
