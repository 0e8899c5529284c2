// SPDX-License-Identifier: MIT
#include <errno.h>

#include "daemon/backends/params.h"
#include "daemon/kernels/signature.h"
#include "selftests/unit/be_test.h"

static struct signature s;
static char error[256];

static int parse(const char *text)
{
	memset(error, 0, sizeof(error));
	return signature_parse(&s, text, error, sizeof(error));
}

START_TEST(takes_ranges_and_arguments)
{
	ck_assert_int_eq(parse("vadd(in f32 a[], in f32 b[], out f32 c[], u32 n)"), 0);
	ck_assert_str_eq(s.name, "vadd");
	ck_assert_uint_eq(s.abi.nr_ranges, 3);
	ck_assert_uint_eq(s.abi.arg_len, 4);
	ck_assert_uint_eq(s.abi.access, ARAX_IN | ARAX_IN << 2 | ARAX_OUT << 4);
	ck_assert_uint_eq(s.nr_params, 4);
}
END_TEST

START_TEST(canonical_text_ignores_space)
{
	uint64_t hash;

	ck_assert_int_eq(parse("k(inout u8 x[], f64 y)"), 0);
	hash = s.abi.abi_hash;
	ck_assert_int_eq(parse("\t k ( inout  u8\tx [ ] ,f64   y ) "), 0);
	ck_assert_str_eq(s.text, "k(inout u8 x[], f64 y)");
	ck_assert_uint_eq(s.abi.abi_hash, hash);
}
END_TEST

START_TEST(hash_is_fnv1a)
{
	/* Published test vectors of FNV-1a, 64 bits. */
	ck_assert_uint_eq(signature_hash(""), 0xcbf29ce484222325ull);
	ck_assert_uint_eq(signature_hash("a"), 0xaf63dc4c8601ec8cull);
	ck_assert_uint_eq(signature_hash("foobar"), 0x85944171f73967e8ull);
}
END_TEST

START_TEST(hash_knows_types_names_and_access)
{
	static const char *const texts[] = { "k(in f32 a[])", "k(out f32 a[])", "k(in f64 a[])",
					     "k(in f32 b[])", "j(in f32 a[])", "k(f32 a)" };
	uint64_t hashes[6];

	for (int i = 0; i < 6; i++) {
		ck_assert_int_eq(parse(texts[i]), 0);
		hashes[i] = s.abi.abi_hash;
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(hashes[i], hashes[j]);
	}
}
END_TEST

/* The layout must be the C compiler's own. */
START_TEST(arguments_are_packed_as_in_c)
{
	struct a { uint8_t x; uint32_t y; };
	struct b { double x; uint32_t y; };
	struct c { uint8_t x; uint8_t y; uint16_t z; };
	struct d { float s; uint64_t n; uint8_t f; };

	ck_assert_int_eq(parse("k(u8 x, u32 y)"), 0);
	ck_assert_uint_eq(s.abi.arg_len, sizeof(struct a));
	ck_assert_int_eq(parse("k(f64 x, in u8 r[], u32 y)"), 0);
	ck_assert_uint_eq(s.abi.arg_len, sizeof(struct b));
	ck_assert_int_eq(parse("k(i8 x, u8 y, i16 z)"), 0);
	ck_assert_uint_eq(s.abi.arg_len, sizeof(struct c));
	ck_assert_int_eq(parse("k(f32 s, u64 n, u8 f)"), 0);
	ck_assert_uint_eq(s.abi.arg_len, sizeof(struct d));
	ck_assert_int_eq(parse("k()"), 0);
	ck_assert_uint_eq(s.abi.arg_len, 0);
}
END_TEST

static const struct {
	const char *text, *error;
	int err;
} bad[] = {
	{ "", "name of the kernel expected", -EINVAL },
	{ "9k()", "name of the kernel expected", -EINVAL },
	{ "k", "'(' expected", -EINVAL },
	{ "k(", "type expected", -EINVAL },
	{ "k(u32 a", "',' or ')' expected", -EINVAL },
	{ "k(u32 a,)", "type expected", -EINVAL },
	{ "k(u33 a)", "type expected", -EINVAL },
	{ "k(in a[])", "type expected", -EINVAL },
	{ "k(u32)", "name of a parameter expected", -EINVAL },
	{ "k(in f32 a)", "'[]' expected", -EINVAL },
	{ "k(in f32 a[)", "'[]' expected", -EINVAL },
	{ "k(f32 a[])", "a range needs", -EINVAL },
	{ "k(u32 a, f32 a)", "named twice", -EINVAL },
	{ "k() x", "nothing may follow", -EINVAL },
	{ "k(u32 a\n)", "',' or ')' expected", -EINVAL },
	{ "k234567890123456789012345678901234567890123456789012345678901234()", "longer than 63",
	  -E2BIG },
};

START_TEST(refuses)
{
	ck_assert_int_eq(parse(bad[_i].text), bad[_i].err);
	ck_assert_msg(strstr(error, bad[_i].error), "'%s' gives '%s'", bad[_i].text, error);
	ck_assert_ptr_nonnull(strstr(error, "at byte"));
}
END_TEST

START_TEST(holds_32_parameters_and_no_more)
{
	char text[512] = "k(";

	for (int i = 0; i < ARAX_SIG_MAX_ARGS; i++)
		sprintf(text + strlen(text), "%su8 a%d", i ? "," : "", i);
	strcat(text, ")");
	ck_assert_int_eq(parse(text), 0);
	strcpy(strchr(text, ')'), ",u8 z)");
	ck_assert_int_eq(parse(text), -E2BIG);
	ck_assert_ptr_nonnull(strstr(error, "more than 32"));
}
END_TEST

START_TEST(all_32_may_be_ranges)
{
	char text[512] = "k(";

	for (int i = 0; i < 32; i++)
		sprintf(text + strlen(text), "%sin u8 %c%c[]", i ? "," : "", 'a' + i / 16, 'a' + i % 16);
	strcat(text, ")");
	/* 32 * "in u8 xx[], " is more than the uapi's 255 bytes. */
	ck_assert_int_eq(parse(text), -E2BIG);
	ck_assert_ptr_nonnull(strstr(error, "longer than 255"));
}
END_TEST

/* What backends read out of a canonical text is what the parser put in. */
START_TEST(finds_words)
{
	static const struct { const char *name; int at; } cases[] = {
		{ "n", 4 }, { "last", 20 }, { "b", -EINVAL }, { "wide", -EINVAL }, { "x", -EINVAL },
		{ "y", -EINVAL },
		{ "", -ENOENT }, { "u32", -ENOENT }, { "las", -ENOENT }, { "f", -ENOENT },
	};
	struct signature s;
	char error[256];

	ck_assert_int_eq(signature_parse(&s, "f(u8 b, in u32 x[], u32 n, u64 wide, u8 c, inout f32 y[], u32 last)",
					 error, sizeof(error)), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_int_eq(signature_u32(&s, cases[i].name), cases[i].at);
	ck_assert_int_eq(signature_parse(&s, "f()", error, sizeof(error)), 0);
	ck_assert_int_eq(signature_u32(&s, "n"), -ENOENT);
}
END_TEST

START_TEST(params_agree)
{
	static const char *const good[] = {
		"f()", "f(u8 a)", "f(i8 a, f64 b, u16 c)", "f(in f32 a[], out u64 b[], u32 n)",
		"f(i32 a, inout i16 x[], u8 b, i64 c, out f64 y[], i8 d)",
	};
	struct signature sig;
	struct params p;
	char error[256];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ck_assert_int_eq(signature_parse(&sig, good[i], error, sizeof(error)), 0);
		ck_assert_int_eq(params_parse(&p, sig.text), 0);
		ck_assert_uint_eq(p.nr_ranges, sig.abi.nr_ranges);
		ck_assert_uint_eq(p.arg_len, sig.abi.arg_len);
		ck_assert_uint_eq(p.nr_ranges + p.nr_plain, sig.nr_params);
		for (uint32_t r = 0; r < p.nr_ranges; r++) {
			ck_assert_int_eq(p.ranges[r].in, !!(sig.abi.access >> (2 * r) & ARAX_IN));
			ck_assert_int_eq(p.ranges[r].out, !!(sig.abi.access >> (2 * r) & ARAX_OUT));
		}
	}
	/* The last: i32 at 0, u8 at 4, i64 at 8, i8 at 16, rounded up to 24. */
	ck_assert_uint_eq(p.plain[1].offset, 4);
	ck_assert_uint_eq(p.plain[2].offset, 8);
	ck_assert_uint_eq(p.plain[3].offset, 16);
	ck_assert_uint_eq(p.arg_len, 24);
	ck_assert_str_eq(p.ranges[1].type->name, "f64");
}
END_TEST

START_TEST(params_refuse)
{
	static const char *const bad[] = {
		"", "f", "f(", "f(u8)", "f(u8 a", "f(u8 a,u8 b)", "f(u7 a)", "f(in)", "f(u8 a) ",
		"f(u8 a, )", "f(in f32)",
	};
	struct params p;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(params_parse(&p, bad[i]) == -EINVAL, "%s", bad[i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("signature");
	TCase *t = tcase_create("all");

	tcase_add_test(t, takes_ranges_and_arguments);
	tcase_add_test(t, canonical_text_ignores_space);
	tcase_add_test(t, hash_is_fnv1a);
	tcase_add_test(t, hash_knows_types_names_and_access);
	tcase_add_test(t, arguments_are_packed_as_in_c);
	tcase_add_loop_test(t, refuses, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, holds_32_parameters_and_no_more);
	tcase_add_test(t, all_32_may_be_ranges);
	tcase_add_test(t, params_agree);
	tcase_add_test(t, finds_words);
	tcase_add_test(t, params_refuse);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
