// SPDX-License-Identifier: MIT
/* Kernels that a program brought: its table, checked and copied, and who finds them. */
#include "daemon/kernels/module.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC	0x10u
#endif

/* Above all serial numbers of installed kernels. */
#define FIRST_SERIAL	(1ull << 32)

#define NAME		"a program's own"

static uint64_t next_serial(void)
{
	static uint64_t last = FIRST_SERIAL;

	return __atomic_fetch_add(&last, 1, __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------ */
/* Making one                                                            */

static int make_file(void)
{
	const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create("arax-module", flags | MFD_EXEC);

	/* Kernels before 6.3 don't know the flag, and need none. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("arax-module", flags);
	return fd < 0 ? -errno : fd;
}

/* By write(): pages of the program's that can't be had are EFAULT there, and no signal. */
static int keep_image(const uint8_t *image, uint64_t bytes)
{
	int fd = make_file(), err;
	uint64_t done = 0;

	while (fd >= 0 && done < bytes) {
		ssize_t n = write(fd, image + done, bytes - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			err = n ? -errno : -EIO;
			close(fd);
			return err == -ENOSPC ? -ENOMEM : err;
		}
		done += (uint64_t)n;
	}
	if (fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE |
						      F_SEAL_SEAL)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

static bool is_text(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	if (!n || n == size)
		return false;
	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] >= 0x7f)
			return false;
	return true;
}

static int set_kernel(struct module *m, uint32_t i, const struct arax_module_kernel *from,
		      uint32_t kind, char *why, size_t len)
{
	struct arax_module_kernel k = *from;	/* once: it is the program's memory */
	struct kernel *to = &m->kernels[i];
	char text[256];
	int err;

	if (k.flags & ~ARAX_MODULE_SPLIT) {
		snprintf(why, len, "kernel %u: unknown flags", i);
		return -EINVAL;
	}
	if (!is_text(k.symbol, sizeof(k.symbol)) || !is_text(k.text, sizeof(k.text))) {
		snprintf(why, len, "kernel %u: symbol or signature is empty, has no end or a byte that is not printable ASCII",
			 i);
		return -EINVAL;
	}
	err = signature_parse(&to->sig, k.text, text, sizeof(text));
	if (err) {
		snprintf(why, len, "kernel %u: signature: %s", i, text);
		return err;
	}
	for (uint32_t j = 0; j < i; j++)
		if (!strcmp(m->kernels[j].sig.name, to->sig.name)) {
			snprintf(why, len, "%s stands here twice", to->sig.name);
			return -EINVAL;
		}
	to->index = KERNEL_NO_INDEX;
	to->serial = next_serial();
	to->image = m->kernels[0].serial;
	to->in_image = m->nr_kernels;
	to->kinds = 1u << kind;
	to->addressing = KERNEL_ADDRESSING_DATA;
	to->split = k.flags & ARAX_MODULE_SPLIT;
	to->foreign = true;
	to->library = (char *)NAME;
	to->nr_impls = 1;
	to->impls[0].kind = kind;
	to->impls[0].fd = m->fd;
	to->impls[0].file = (char *)NAME;
	to->impls[0].symbol = strdup(k.symbol);
	return to->impls[0].symbol ? 0 : -ENOMEM;
}

int module_create(const struct arax_module_load *from, const void *image, uint64_t bytes,
		  const struct arax_module_kernel *table, struct module **out, char *why, size_t len)
{
	struct arax_module_load a = *from;
	struct module *m;
	int err = 0;

	why[0] = '\0';
	if (a.size != sizeof(a) || a.flags) {
		snprintf(why, len, "arguments of another size than %zu, or unknown flags", sizeof(a));
		return a.size > sizeof(a) ? -E2BIG : -EINVAL;
	}
	if (a.kind != ARAX_DEVICE_CPU && a.kind != ARAX_DEVICE_OPENCL) {
		snprintf(why, len, "no process here can run a program's own code on devices of kind %u; only of kind %u (cpu), and %u (opencl) where these work on host pages",
			 a.kind, ARAX_DEVICE_CPU, ARAX_DEVICE_OPENCL);
		return -EOPNOTSUPP;
	}
	if (!a.nr_kernels || a.nr_kernels > ARAX_MODULE_MAX_KERNELS) {
		snprintf(why, len, "%u kernels; 1 to %u can be", a.nr_kernels,
			 ARAX_MODULE_MAX_KERNELS);
		return a.nr_kernels ? -E2BIG : -EINVAL;
	}
	if (!bytes || bytes > ARAX_MODULE_MAX_BYTES) {
		snprintf(why, len, "an image of %llu bytes; 1 to %u can be",
			 (unsigned long long)bytes, ARAX_MODULE_MAX_BYTES);
		return bytes ? -E2BIG : -EINVAL;
	}
	m = calloc(1, sizeof(*m) + a.nr_kernels * sizeof(m->kernels[0]));
	if (!m)
		return -ENOMEM;
	m->refs = 1;
	m->nr_kernels = a.nr_kernels;
	m->bytes = bytes;
	m->kind = a.kind;
	m->fd = keep_image(image, bytes);
	if (m->fd < 0)
		err = m->fd;
	for (uint32_t i = 0; !err && i < a.nr_kernels; i++)
		err = set_kernel(m, i, &table[i], a.kind, why, len);
	if (err) {
		module_destroy(m);
		return err;
	}
	*out = m;
	return 0;
}

uint64_t module_cost(uint64_t bytes, uint32_t nr_kernels)
{
	return bytes + sizeof(struct module) +
	       nr_kernels * (sizeof(struct kernel) + sizeof(((struct arax_module_kernel *)0)->symbol));
}

int module_add_built(struct module *m, uint32_t device, int fd)
{
	struct module_built *more = realloc(m->built, (m->nr_built + 1) * sizeof(*more));

	if (!more) {
		close(fd);
		return -ENOMEM;
	}
	m->built = more;
	m->built[m->nr_built++] = (struct module_built){ device, fd };
	return 0;
}

int module_built(const struct module *m, uint32_t device)
{
	for (uint32_t i = 0; i < m->nr_built; i++)
		if (m->built[i].device == device)
			return m->built[i].fd;
	return -1;
}

void module_destroy(struct module *m)
{
	for (uint32_t i = 0; i < m->nr_kernels; i++)
		free(m->kernels[i].impls[0].symbol);
	for (uint32_t i = 0; i < m->nr_built; i++)
		close(m->built[i].fd);
	free(m->built);
	if (m->fd >= 0)
		close(m->fd);
	free(m);
}

void module_describe(const struct module *m, uint32_t i, struct arax_module_kernel *out)
{
	const struct kernel *k = &m->kernels[i];

	out->id = m->first_id + i;
	out->sig = k->sig.abi;
	memcpy(out->name, k->sig.name, sizeof(out->name));
	memcpy(out->text, k->sig.text, sizeof(out->text));
}

/* ------------------------------------------------------------------ */
/* The table                                                             */

static struct module **bucket_of(const struct modules *ms, uint32_t context)
{
	uint64_t h = (context + ms->seed) * 0x9e3779b97f4a7c15ull;

	h ^= h >> 29;
	return (struct module **)&ms->buckets[(h * ms->seed >> 32) % MODULE_BUCKETS];
}

static struct module **find(const struct modules *ms, uint32_t context, uint32_t id)
{
	struct module **m = bucket_of(ms, context);

	while (*m && ((*m)->context != context || id - (*m)->first_id >= (*m)->nr_kernels))
		m = &(*m)->next;
	return m;
}

/* In a row, and none of them any kernel's of the context: numbers come round one day. */
static bool are_free(const struct modules *ms, uint32_t context, uint32_t first, uint32_t nr)
{
	for (const struct module *m = *bucket_of(ms, context); m; m = m->next)
		if (m->context == context && first < m->first_id + m->nr_kernels &&
		    m->first_id < first + nr)
			return false;
	return true;
}

int modules_add(struct modules *ms, uint32_t context, struct module *m)
{
	struct module **bucket;
	uint32_t first, nr = 0;

	/* Odd; without one it is the same each time, and works as well. */
	if (!ms->seed && getrandom(&ms->seed, sizeof(ms->seed), GRND_NONBLOCK) < 0)
		ms->seed = 0;
	ms->seed |= 1;
	bucket = bucket_of(ms, context);
	for (const struct module *o = *bucket; o; o = o->next)
		nr += o->context == context;
	if (nr >= ARAX_MAX_MODULES)
		return -ENOSPC;
	do {
		first = (ms->last_id + 1) & ~ARAX_KERNEL_OWN;
		if (first > ~ARAX_KERNEL_OWN - m->nr_kernels)
			first = 0;
		ms->last_id = first + m->nr_kernels - 1;
		first |= ARAX_KERNEL_OWN;
	} while (!are_free(ms, context, first, m->nr_kernels));
	m->first_id = first;
	m->context = context;
	m->next = *bucket;
	*bucket = m;
	return 0;
}

struct module *modules_find(const struct modules *ms, uint32_t context, uint32_t id)
{
	return *find(ms, context, id);
}

struct module *modules_take(struct modules *ms, uint32_t context, uint32_t id)
{
	struct module **at = find(ms, context, id), *m = *at;

	if (m)
		*at = m->next;
	return m;
}

struct module *modules_any(const struct modules *ms, uint32_t context)
{
	struct module *m = *bucket_of(ms, context);

	while (m && m->context != context)
		m = m->next;
	return m;
}

struct module *modules_first(const struct modules *ms)
{
	for (uint32_t i = 0; i < MODULE_BUCKETS; i++)
		if (ms->buckets[i])
			return ms->buckets[i];
	return NULL;
}
