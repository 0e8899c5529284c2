/* SPDX-License-Identifier: MIT */
/*
 * A test is a function in a process of its own; what it prints is TAP.  A
 * failed check says where and ends the test; a crash or a hang fails it too.
 */
#ifndef SYSTEM_TAP_H
#define SYSTEM_TAP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
	struct test *next;
};

void tap_register(struct test *test);
/* Ends the test as skipped. */
void tap_skip(const char *reason) __attribute__((noreturn));
void tap_fail(const char *file, int line, const char *what, long long a, long long b)
	__attribute__((noreturn));

#define TEST(fn) \
	static void fn(void); \
	static struct test test_##fn = { #fn, fn, NULL }; \
	__attribute__((constructor)) static void register_##fn(void) \
	{ \
		tap_register(&test_##fn); \
	} \
	static void fn(void)

#define CHECK(cond) do { \
	if (!(cond)) \
		tap_fail(__FILE__, __LINE__, #cond, 0, 0); \
} while (0)

/* Two integers that must be equal; prints both when they are not. */
#define CHECK_EQ(a, b) do { \
	long long a_ = (long long)(a), b_ = (long long)(b); \
	if (a_ != b_) \
		tap_fail(__FILE__, __LINE__, #a " == " #b, a_, b_); \
} while (0)

#endif
