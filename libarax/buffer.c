// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "filelimit.h"
#include "internal.h"

#define SAME_FILE_WAIT_MS	120u	/* so long others of it may still be about to go */

static void buffer_add(struct arax *ax, struct buffer *b, struct arax_buffer **out)
{
	b->ax = ax;
	pthread_mutex_lock(&ax->object_lock);
	b->next = ax->buffers;
	ax->buffers = b;
	pthread_mutex_unlock(&ax->object_lock);
	*out = &b->pub;
}

static struct buffer *to_buffer(struct arax_buffer *b)
{
	return (struct buffer *)b;
}

static size_t page_round(uint64_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) & ~(page - 1);
}

int arax_buffer_create(struct arax *ax, uint64_t bytes, uint32_t flags,
		       struct arax_buffer **buffer)
{
	struct arax_buffer_create a = {
		.size = sizeof(a),
		.flags = flags,
		.bytes = bytes,
		.fd = -1,
	};
	char why[WHY_LEN];
	struct sysinfo s;
	struct buffer *b;
	int ret;

	if (!is_owner(ax))
		return not_owner();
	if (!bytes)
		return error_set(-EINVAL, "a buffer of 0 bytes");
	b = calloc(1, sizeof(*b));
	if (!b)
		return error_set(-ENOMEM, "arax_buffer_create");
	ret = load_acquire(&ax->dead);
	if (!ret)
		ret = ax->link->ops->buffer_create(ax->link, &a, &b->pub.data);
	if (ret) {
		free(b);
		if (ret == -EDQUOT) {
			quota_text(ax, ARAX_RES_MEMORY, page_round(bytes), why, sizeof(why));
			return error_set(ret, "creating a buffer of %llu bytes: %s",
					 (unsigned long long)bytes, why);
		}
		if (ret == -ENOMEM && ax->link->type == ARAX_LINK_BROKER &&
		    page_round(bytes) > file_limit())
			return error_set(ret, "creating a buffer of %llu bytes: " ERROR_FILE_LIMIT,
					 (unsigned long long)bytes,
					 (unsigned long long)file_limit());
		if (ret == -ENOMEM && !sysinfo(&s) && bytes / s.mem_unit > s.totalram)
			return error_set(ret, "creating a buffer of %llu bytes: this machine has %llu bytes of memory in all",
					 (unsigned long long)bytes,
					 (unsigned long long)s.totalram * s.mem_unit);
		if (ret == -EOPNOTSUPP && flags & ~ARAX_BUFFER_FLAGS)
			return error_set(ret, "creating a buffer with flags 0x%x: want 0 or ARAX_BUFFER_EXPLICIT",
					 flags);
		return error_set(ret, "creating a buffer of %llu bytes%s",
				 (unsigned long long)bytes,
				 ret == -ENOSPC ? too_many(ARAX_NR_BUFFER_CREATE) : "");
	}
	b->pub.handle = a.handle;
	b->pub.bytes = bytes;
	b->mapped = a.bytes;
	b->is_explicit = flags & ARAX_BUFFER_EXPLICIT;
	if (b->is_explicit)
		store_release(&ax->has_explicit, true);
	buffer_add(ax, b, buffer);
	return 0;
}

/* What of a memfd is wrong for both links, or for the broker; NULL: something else. */
static const char *wrong_memfd(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0 || fstat(fd, &st))
		return "it is no memfd";
	if (!(seals & F_SEAL_SHRINK))
		return "make it by memfd_create() with MFD_ALLOW_SEALING, and seal it by F_ADD_SEALS, F_SEAL_SHRINK";
	if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return "it is sealed against writing";
	if (!st.st_size || st.st_size != (off_t)page_round((uint64_t)st.st_size))
		return "its size is no whole number of pages: see ftruncate()";
	if (!fstatfs(fd, &fs) && (unsigned int)fs.f_type == HUGETLBFS_MAGIC)
		return "it is of MFD_HUGETLB, whose pages can't be had: make it without";
	if (st.st_blocks * 512 < st.st_size)
		return "it has holes, which only the module would fill: fallocate() them";
	return NULL;
}

/* What was destroyed just now counts until the daemon has it unmapped, which takes a moment. */
static int ask_to_import(struct arax *ax, struct arax_buffer_import *a, int fd)
{
	const struct arax_buffer_import given = *a;
	int ret = context_call(ax, "importing a buffer", ARAX_NR_BUFFER_IMPORT, a);

	for (unsigned int ms = 8; ret == -EMLINK && ms < SAME_FILE_WAIT_MS; ms *= 4) {
		nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000l }, NULL);
		*a = given;
		ret = context_call(ax, "importing a buffer", ARAX_NR_BUFFER_IMPORT, a);
	}
	if (ret == -EMLINK)
		error_set(ret, "importing descriptor %d: its user has that file in 32 buffers, which is the most: use one of them, or create one and share it by arax_buffer_export()",
			  fd);
	return ret;
}

static int import(struct arax *ax, struct arax_buffer_import *a, int fd, struct buffer **out)
{
	struct arax_handle h = { .size = sizeof(h) };
	const char *wrong;
	struct buffer *b;
	int ret;

	if (!is_owner(ax))
		return not_owner();
	b = calloc(1, sizeof(*b));
	if (!b)
		return error_set(-ENOMEM, "importing a buffer");
	ret = ask_to_import(ax, a, fd);
	if (ret == -EINVAL && a->type == ARAX_IMPORT_MEMFD) {
		wrong = wrong_memfd(fd);
		if (wrong)
			error_set(ret, "importing descriptor %d: %s", fd, wrong);
	}
	if (ret == -EINVAL && a->type == ARAX_IMPORT_ARAX)
		error_set(ret, "importing descriptor %d: it is not what arax_buffer_export() gave, or that buffer is gone", fd);
	if (ret)
		goto fail;
	if (a->type == ARAX_IMPORT_USER) {
		b->pub.data = (void *)(uintptr_t)a->address;
	} else {
		ret = ax->link->ops->buffer_map(ax->link, a, fd, &b->pub.data);
		/* A dma-buf's exporter need not let the CPU map it. */
		if (ret && a->type != ARAX_IMPORT_DMABUF) {
			error_set(ret, "mapping an imported buffer of %llu bytes",
				  (unsigned long long)a->bytes);
			h.handle = a->handle;
			ax->link->ops->call(ax->link, ARAX_NR_BUFFER_DESTROY, &h);
			goto fail;
		}
		b->mapped = ret ? 0 : page_round(a->bytes);
	}
	b->pub.bytes = a->bytes;
	b->pub.handle = a->handle;
	*out = b;
	return 0;
fail:
	free(b);
	return ret;
}

int arax_buffer_import(struct arax *ax, uint32_t type, int fd, struct arax_buffer **buffer)
{
	struct arax_buffer_import a = { .size = sizeof(a), .type = type, .fd = fd };
	struct buffer *b;
	int ret;

	if (type == ARAX_IMPORT_USER)
		return error_set(-EINVAL, "importing a descriptor as memory of the program's own: see arax_buffer_import_user()");
	if (type > ARAX_IMPORT_DMABUF)
		return error_set(-EOPNOTSUPP, "importing a descriptor as type %u", type);
	if (fd < 0)
		return error_set(-EBADF, "importing descriptor %d", fd);
	ret = import(ax, &a, fd, &b);
	if (!ret)
		buffer_add(ax, b, buffer);
	return ret;
}

int arax_buffer_import_user(struct arax *ax, void *address, uint64_t bytes,
			    struct arax_buffer **buffer)
{
	struct arax_buffer_import a = {
		.size = sizeof(a),
		.type = ARAX_IMPORT_USER,
		.fd = -1,
		.address = (uintptr_t)address,
		.bytes = bytes,
	};
	struct buffer *b;
	int ret = import(ax, &a, -1, &b);

	if (ret == -EINVAL)
		error_set(ret, "importing %llu bytes at %p: want whole pages, and at least one",
			  (unsigned long long)bytes, address);
	if (!ret)
		buffer_add(ax, b, buffer);
	return ret;
}

int arax_buffer_export(struct arax_buffer *buffer, uint32_t type)
{
	struct arax_buffer_export a = {
		.size = sizeof(a),
		.handle = buffer->handle,
		.type = type,
		.fd = -1,
	};
	int ret = context_call(to_buffer(buffer)->ax, "exporting a buffer",
			       ARAX_NR_BUFFER_EXPORT, &a);

	if (ret == -EPERM && is_owner(to_buffer(buffer)->ax))
		error_set(ret, "exporting a buffer: who imported it can't pass it on");
	if (ret != -EOPNOTSUPP)
		return ret ? ret : a.fd;
	if (type > ARAX_EXPORT_DMABUF)
		return error_set(ret, "exporting a buffer as type %u: want ARAX_EXPORT_ARAX or ARAX_EXPORT_DMABUF",
				 type);
	if (to_buffer(buffer)->is_explicit)
		return error_set(ret, "exporting a buffer that has ARAX_BUFFER_EXPLICIT: others can share plain ones alone");
	if (type == ARAX_EXPORT_DMABUF)
		return error_set(ret, "exporting a buffer as a dma-buf: that takes arax.ko, and a buffer that is not an import (`arax info`)");
	return error_set(ret, "exporting a buffer that was imported: pass on what it was made of");
}

int arax_buffer_revoke(struct arax_buffer *buffer)
{
	struct arax_handle h = { .size = sizeof(h), .handle = buffer->handle };

	int ret = context_call(to_buffer(buffer)->ax, "revoking a buffer", ARAX_NR_BUFFER_REVOKE,
			       &h);

	if (ret == -EPERM && is_owner(to_buffer(buffer)->ax))
		error_set(ret, "revoking a buffer: who imported it can't take it from others");
	return ret;
}

int arax_buffer_query(struct arax_buffer *buffer, struct arax_buffer_query *query)
{
	memset(query, 0, sizeof(*query));
	query->size = sizeof(*query);
	query->handle = buffer->handle;
	return context_call(to_buffer(buffer)->ax, "asking about a buffer", ARAX_NR_BUFFER_QUERY,
			    query);
}

void arax_buffer_destroy(struct arax_buffer *buffer)
{
	struct buffer **at, *b = to_buffer(buffer);
	struct arax_handle h = { .size = sizeof(h) };
	struct arax *ax;

	if (!b || !is_owner(b->ax))
		return;
	ax = b->ax;
	pthread_mutex_lock(&ax->object_lock);
	for (at = &ax->buffers; *at && *at != b; at = &(*at)->next)
		;
	if (*at)
		*at = b->next;
	pthread_mutex_unlock(&ax->object_lock);

	h.handle = b->pub.handle;
	ax->link->ops->call(ax->link, ARAX_NR_BUFFER_DESTROY, &h);
	if (b->mapped)
		munmap(b->pub.data, b->mapped);
	free(b);
}
