/* SPDX-License-Identifier: MIT */
/*
 * store.h - learnt run times as a file
 *
 * JSON, so that people and programs can read it: what is below "models" belongs to one
 * kernel (name and ABI hash) on one device (name, backend, units), as numbers of kernels
 * and devices change from start to start.
 */
#ifndef ARAXD_SCHED_STORE_H
#define ARAXD_SCHED_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "uapi/arax.h"

#define STORE_VERSION	2	/* 1 had only a launch's work items for its work */
#define STORE_MAX_BYTES	(64u << 20)
#define STORE_DAYS	90	/* what was not seen for so long is forgotten */

/**
 * struct store_key - whose run times
 * @abi:	of the kernel's signature; 0: copies and the like, which have none
 */
struct store_key {
	char kernel[ARAX_NAME_LEN];
	char device[ARAX_NAME_LEN];
	char backend[32];
	uint64_t abi;
	uint32_t units;
};

/**
 * struct store_entry - one size class: see struct model_record
 * @day:	of the latest run, days since 1970
 */
struct store_entry {
	struct store_key key;
	double work;
	double deviation;
	uint64_t ns, all_ns;
	uint32_t runs;
	uint32_t day;
};

struct store {
	size_t count;
	struct store_entry *at;
};

/*
 * On -EINVAL (contents), -EPROTONOSUPPORT (another version), -E2BIG (too many) or -ENOMEM
 * @error says what and where, and nothing is to be freed.
 */
int store_parse(struct store *s, const char *name, const char *text, size_t bytes, char *error,
		size_t len);
/* Sorts @s; NULL: no memory.  The caller frees. */
char *store_format(struct store *s);
void store_free(struct store *s);

/* Read by whoever trusts the file; 0, -ENOENT, or as store_parse(). */
int store_load(struct store *s, const char *path, char *error, size_t len);
/* All or nothing; makes the last folder.  Negative errno. */
int store_save(struct store *s, const char *path);

#endif /* ARAXD_SCHED_STORE_H */
