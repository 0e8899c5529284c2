/* SPDX-License-Identifier: MIT */
/* The bytes of one run, taken from the front; zeroes when they are used up. */
#ifndef CORE_INPUT_H
#define CORE_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct input {
	const uint8_t *p;
	size_t left;
};

static inline void take(struct input *in, void *dst, size_t n)
{
	size_t have = n < in->left ? n : in->left;

	memset(dst, 0, n);
	if (have)
		memcpy(dst, in->p, have);
	in->p += have;
	in->left -= have;
}

static inline uint8_t take8(struct input *in)
{
	uint8_t v;

	take(in, &v, sizeof(v));
	return v;
}

static inline uint32_t take32(struct input *in)
{
	uint32_t v;

	take(in, &v, sizeof(v));
	return v;
}

#endif /* CORE_INPUT_H */
