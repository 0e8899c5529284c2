// SPDX-License-Identifier: MIT
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <arax/uapi.h>

#include "libarax/admin/setting.h"

#define DEFAULT_WEIGHT		100
#define DEFAULT_PERIOD_US	100000

static const struct {
	const char *key;
	uint32_t what;
	bool bytes;
} keys[] = {
	{ "memory.max", ARAX_SET_MAX + ARAX_RES_MEMORY, true },
	{ "tasks.max", ARAX_SET_MAX + ARAX_RES_TASKS, false },
	{ "contexts.max", ARAX_SET_MAX + ARAX_RES_CONTEXTS, false },
	{ "device_memory.max", ARAX_SET_MAX + ARAX_RES_DEVICE_MEMORY, true },
	{ "device_time.weight", ARAX_SET_WEIGHT, false },
	{ "device_time.max", ARAX_SET_DEVICE_TIME, false },
};

#define NR_KEYS	(sizeof(keys) / sizeof(keys[0]))

static int find_key(const char *word)
{
	size_t i, n = strcspn(word, "=");

	for (i = 0; i < NR_KEYS; i++) {
		if (strlen(keys[i].key) == n && !strncmp(word, keys[i].key, n))
			return (int)i;
	}
	return -1;
}

bool tenant_is_setting(const char *word)
{
	return find_key(word) >= 0 || (!strchr(word, '/') && strchr(word, '='));
}

/* A number without sign; *end is what follows it. */
static bool parse_number(const char *s, uint64_t *n, char **end)
{
	errno = 0;
	*n = strtoull(s, end, 10);
	return isdigit((unsigned char)*s) && !errno;
}

static const char *parse_amount(const char *s, bool bytes, uint64_t *n)
{
	static const char units[] = "KMGT";
	unsigned int shift = 0;
	const char *unit;
	char *end;

	if (!strcmp(s, "max")) {
		*n = ARAX_LIMIT_MAX;
		return NULL;
	}
	if (!parse_number(s, n, &end))
		return "want a number, or max";
	if (*end && bytes) {
		unit = strchr(units, toupper((unsigned char)*end));
		if (!unit)
			return "want K, M, G or T behind the number";
		shift = 10 * (unsigned int)(unit - units + 1);
		end++;
	}
	if (*end)
		return "something follows the number";
	if (*n > (ARAX_LIMIT_MAX - 1) >> shift)
		return "too large: say max for no limit";
	*n <<= shift;
	return NULL;
}

static const char *parse_device_time(const char *s, struct tenant_setting *t)
{
	uint64_t period = DEFAULT_PERIOD_US;
	bool max = !strncmp(s, "max", 3);
	char *end = (char *)s + 3;

	if (!max && !parse_number(s, &t->value, &end))
		return "want \"MAX PERIOD\" in microseconds, or max";
	if (*end == ' ' && !parse_number(end + 1, &period, &end))
		return "want a period in microseconds behind the space";
	if (*end)
		return "want \"MAX PERIOD\" in microseconds, or max";
	if (!period || period > 1000000000)
		return "a period is 1 to 1000000000 microseconds";
	if (!max && t->value > UINT64_MAX / 2000)
		return "too large: say max for no limit";
	t->value = max ? ARAX_LIMIT_MAX : t->value * 1000;
	t->period_ns = period * 1000;
	return NULL;
}

const char *tenant_parse(const char *word, bool unset, struct tenant_setting *s)
{
	const char *value = strchr(word, '=');
	int key = find_key(word);
	const char *wrong;

	memset(s, 0, sizeof(*s));
	if (key < 0)
		return "no such key; there are " TENANT_KEYS;
	s->what = keys[key].what;
	if (unset) {
		s->value = s->what == ARAX_SET_WEIGHT ? DEFAULT_WEIGHT : ARAX_LIMIT_MAX;
		if (s->what == ARAX_SET_DEVICE_TIME)
			s->period_ns = DEFAULT_PERIOD_US * 1000ull;
		return value ? "unset takes keys without values" : NULL;
	}
	if (!value)
		return "want KEY=VALUE";
	if (s->what == ARAX_SET_DEVICE_TIME)
		return parse_device_time(value + 1, s);
	wrong = parse_amount(value + 1, keys[key].bytes, &s->value);
	if (!wrong && s->what == ARAX_SET_WEIGHT && (s->value < 1 || s->value > 10000))
		return "a weight is 1 to 10000";
	return wrong;
}
