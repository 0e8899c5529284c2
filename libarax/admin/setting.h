/* SPDX-License-Identifier: MIT */
/* The words of `arax tenant set`. */
#ifndef LIBARAX_ADMIN_SETTING_H
#define LIBARAX_ADMIN_SETTING_H

#include <stdbool.h>
#include <stdint.h>

struct tenant_setting {
	uint32_t what;		/* ARAX_SET_* */
	uint64_t value;
	uint64_t period_ns;
};

/* For who meant one of them. */
#define TENANT_KEYS	"memory.max, tasks.max, contexts.max, device_memory.max, device_time.weight and device_time.max"

/* Does it look like KEY or KEY=VALUE rather than like a cgroup's path? */
bool tenant_is_setting(const char *word);
/*
 * Parses KEY=VALUE, or KEY alone if @unset.  Returns NULL, or what is wrong with it
 * (a static text).
 */
const char *tenant_parse(const char *word, bool unset, struct tenant_setting *s);

#endif /* LIBARAX_ADMIN_SETTING_H */
