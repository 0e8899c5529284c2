// SPDX-License-Identifier: MIT
/* .xclbin files: read once from the checked descriptor, kept for when they are wanted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/backends/xrt/backend.h"

static uint64_t hash_of(const uint8_t *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325ull, word;

	for (; n >= sizeof(word); p += sizeof(word), n -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		h = (h ^ word) * 0x100000001b3ull;
	}
	while (n--)
		h = (h ^ *p++) * 0x100000001b3ull;
	return h;
}

/* Other devices read it at the same time: no file position. */
static int read_file(const struct arax_backend_kernel *desc, uint8_t **file, size_t *bytes)
{
	struct stat st;
	uint8_t *data;
	ssize_t n;

	*bytes = 0;
	if (fstat(desc->fd, &st))
		return -errno;
	if (st.st_size < 0 || (uint64_t)st.st_size > XRT_MAX_FILE) {
		xrt_log(ARAX_LOG_ERR, "%s: %lld bytes, at most %llu", desc->file,
			(long long)st.st_size, XRT_MAX_FILE);
		return -E2BIG;
	}
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	while (*bytes < (size_t)st.st_size) {
		n = pread(desc->fd, data + *bytes, (size_t)st.st_size - *bytes, (off_t)*bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			n = -errno;
			free(data);
			return (int)n;
		}
		if (!n)
			break;
		*bytes += (size_t)n;
	}
	*file = data;
	return 0;
}

static struct xrt_image *find(struct xrt_device *d, const struct xrt_image *like)
{
	for (struct xrt_image *i = d->images; i; i = i->next)
		if (i->hash == like->hash && i->file_bytes == like->file_bytes &&
		    !memcmp(i->file, like->file, like->file_bytes))
			return i;
	return NULL;
}

static int make(struct xrt_device *d, const struct arax_backend_kernel *desc,
		const struct xrt_image *like, struct xrt_image **image)
{
	struct xrt_image *i;
	struct xclbin x;
	char why[256];
	int err;

	err = xclbin_parse(&x, like->file, like->file_bytes, why, sizeof(why));
	if (err) {
		xrt_log(ARAX_LOG_ERR, "%s: %s", desc->file, why);
		return err;
	}
	i = malloc(sizeof(*i));
	if (!i)
		return -ENOMEM;
	*i = *like;
	i->xclbin = x;
	i->number = ++d->last_number;
	i->banks = ~0ull;
	i->next = d->images;
	d->images = i;
	*image = i;
	return 0;
}

int xrt_image_get(struct xrt_device *d, const struct arax_backend_kernel *desc,
		  struct xrt_image **image)
{
	struct xrt_image like = { 0 };
	int err;

	err = read_file(desc, &like.file, &like.file_bytes);
	if (err)
		return err;
	like.hash = hash_of(like.file, like.file_bytes);
	*image = find(d, &like);
	if (*image)
		free(like.file);
	else
		err = make(d, desc, &like, image);
	if (err)
		free(like.file);
	else
		(*image)->users++;
	return err;
}

void xrt_image_put(struct xrt_device *d, struct xrt_image *image)
{
	struct xrt_image **link = &d->images;

	if (--image->users)
		return;
	while (*link != image)
		link = &(*link)->next;
	*link = image->next;
	if (d->loaded == image)
		xrt_unload(d);
	free(image->file);
	free(image);
}
