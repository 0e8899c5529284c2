// SPDX-License-Identifier: MIT
/*
 * A program that another process has built, for one that does not compile: the table of its
 * kernels (see program.c) and the driver's binary, behind each other in a file.
 *
 * Both ends are of one build of Arax.  Who reads it runs what is in it and is locked up for
 * that: so the form is checked for a clear error and no crash, and nothing is believed of it.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/opencl/built.h"

struct head {
	char magic[8];
	uint64_t table_bytes;	/* without its NUL; it ends with a newline, or is empty */
	uint64_t binary_bytes;
};

static const char magic[8] = "araxcl1";

int built_write(int fd, const char *table, const struct blob *binary)
{
	struct head h = { .table_bytes = strlen(table), .binary_bytes = binary->bytes };
	int err;

	memcpy(h.magic, magic, sizeof(h.magic));
	err = blob_write(fd, &h, sizeof(h));
	if (!err)
		err = blob_write(fd, table, h.table_bytes);
	return err ? err : blob_write(fd, binary->data, h.binary_bytes);
}

int built_read(const struct blob *file, char **table, struct blob *binary)
{
	const char *text = (const char *)file->data + sizeof(struct head);
	struct head h;
	uint64_t left;

	if (file->bytes < sizeof(h))
		return -ENOEXEC;
	memcpy(&h, file->data, sizeof(h));
	left = file->bytes - sizeof(h);
	if (memcmp(h.magic, magic, sizeof(magic)) || h.table_bytes > left ||
	    h.binary_bytes != left - h.table_bytes || !h.binary_bytes)
		return -ENOEXEC;
	if (h.table_bytes && (text[h.table_bytes - 1] != '\n' || memchr(text, '\0', h.table_bytes)))
		return -ENOEXEC;
	*table = strndup(text, h.table_bytes);
	if (!*table)
		return -ENOMEM;
	*binary = (struct blob){ (char *)text + h.table_bytes, h.binary_bytes };
	return 0;
}
