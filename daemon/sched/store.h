/* SPDX-License-Identifier: MIT */
/*
 * store.h - learnt run times, and those of copies, as a file
 *
 * JSON, so that people and programs can read it: what is below "models" belongs to one
 * kernel (name and ABI hash) on one device (name, backend, units), as numbers of kernels
 * and devices change from start to start.  What is below "links", which files of before
 * lack, belongs to one device and a direction.
 */
#ifndef ARAXD_SCHED_STORE_H
#define ARAXD_SCHED_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "uapi/arax.h"

#define STORE_VERSION	2	/* 1 had only a launch's work items for its work */
#define STORE_MAX_BYTES	(64u << 20)
#define STORE_DAYS	90	/* what was not seen for so long is forgotten */
#define STORE_MAX_LINKS	(1u << 16)
#define STORE_MAX_NS	0x1p50	/* of a link's latency, and for a byte */

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

enum store_way { STORE_IN, STORE_OUT, STORE_DIRECT };

/**
 * struct store_link - what copies by a link, in one direction, take
 * @way:	to the device, from the host; from it, to the host; to it, from another one
 * @from:	that one's name, of the same backend, and @from_units
 * @day:	on which it was there last, days since 1970
 */
struct store_link {
	char device[ARAX_NAME_LEN];
	char from[ARAX_NAME_LEN];
	char backend[32];
	uint32_t units, from_units;
	enum store_way way;
	double latency_ns;
	double ns_per_byte;
	uint32_t day;
};

struct store {
	size_t count, nr_links;
	struct store_entry *at;
	struct store_link *links;
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

/* Days since 1970, as a file may have it, whatever the clock says. */
uint32_t store_today(void);

/* Read by whoever trusts the file; 0, -ENOENT, or as store_parse(). */
int store_load(struct store *s, const char *path, char *error, size_t len);
/*
 * All or nothing; makes the last folder, and removes what saves have left there that did not come
 * to their ends.  Negative errno.
 */
int store_save(struct store *s, const char *path);

#endif /* ARAXD_SCHED_STORE_H */
