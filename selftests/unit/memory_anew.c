// SPDX-License-Identifier: MIT
/* memory_anew - bytes that are lost and written anew, in whichever pieces: as an array of bytes has them */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/memory/bits.h"
#include "daemon/memory/internal.h"
#include "selftests/unit/memory_fake.h"
#include "uapi/arax.h"

#define MOST	32768u
#define STEPS	300u

static uint8_t value[MOST];
static bool lost[MOST];
static uint32_t bytes;
static uint64_t seq;

static uint32_t draw(uint32_t n)
{
	return (uint32_t)rand() % n;
}

/* Often so that there are very many pieces. */
static struct memory_range draw_rows(uint32_t access)
{
	uint32_t most = draw(4) ? 4 : bytes / 4 + 1, length = 1 + draw(most < bytes ? most : bytes);
	uint32_t stride = length + 1 + draw(8), offset = draw(bytes - length + 1);
	uint32_t count = 1 + draw((bytes - offset - length) / stride + 1);

	return pair_range(access, offset, length, stride,
			  count < MEMORY_MAX_ROWS ? count : MEMORY_MAX_ROWS);
}

static void set_rows(const struct memory_range *r, uint8_t c)
{
	for (uint32_t i = 0; i < r->count; i++) {
		memset(value + r->offset + i * r->stride, c, r->length);
		memset(lost + r->offset + i * r->stride, false, r->length);
	}
}

/* What the device has alone of the rows, nobody has any more. */
static void lose_rows(const struct memory_range *r)
{
	uint64_t from, to, born, at, end;

	for (uint32_t i = 0; i < r->count; i++) {
		at = r->offset + i * r->stride;
		for (end = at + r->length;
		     intervals_first(&r->extent->dirty, at, end, &from, &to, &born); at = to)
			memset(lost + from, true, to - from);
	}
}

static void run(uint32_t device, int result)
{
	struct memory_range r = draw_rows(ARAX_OUT);
	uint8_t c = (uint8_t)draw(256);

	ck_assert_int_eq(memory_enter(pair.m, device, 0, &r, 1, ++seq, nobody), 0);
	for (uint32_t i = 0; i < r.count; i++)
		memset((uint8_t *)(uintptr_t)r.address + i * r.stride, c, r.length);
	if (result)
		lose_rows(&r);
	else
		set_rows(&r, c);
	ck_assert_int_eq(memory_leave(pair.m, device, 0, &r, 1, result), result);
	memory_settle(pair.m, device, &r, 1, seq);
}

static void lose_device(uint32_t device)
{
	const struct look l = look_dirty(pair.buffer, 0, UINT64_MAX);
	struct memory_extent *e;

	for (e = look_first(&l); e; e = look_next(&l, e))
		for (uint32_t i = 0; !e->lost && e->device == device && i < e->dirty.nr; i++)
			memset(lost + e->dirty.v[i].start, true,
			       e->dirty.v[i].end - e->dirty.v[i].start);
	pair.device[device].dead = true;
	memory_lose(pair.m, device);
	pair.device[device].dead = false;
}

static void host_writes(void)
{
	struct memory_range r = draw_rows(ARAX_OUT);
	uint8_t c = (uint8_t)draw(256);

	ck_assert_int_eq(memory_flush(pair.m, &r), 0);
	for (uint32_t i = 0; i < r.count; i++)
		memset(pair.host + r.offset + i * r.stride, c, r.length);
	set_rows(&r, c);
	memory_host_wrote(pair.m, pair.buffer, r.offset, r.length, r.stride, r.count);
}

/* At the host, or on a device. */
static void read_some(uint32_t device)
{
	uint32_t length = 1 + draw(draw(4) ? 8 : bytes), at;
	bool any = false, host = draw(2);
	struct memory_range r;
	int err;

	length = length < bytes ? length : bytes;
	at = draw(bytes - length + 1);
	for (uint32_t i = 0; i < length; i++)
		any |= lost[at + i];
	r = pair_range(ARAX_IN, at, length, 0, 1);
	err = host ? memory_flush(pair.m, &r) :
		     memory_enter(pair.m, device, 0, &r, 1, ++seq, nobody);
	ck_assert_int_eq(err, any ? -EIO : 0);
	if (any)
		return;
	ck_assert_mem_eq(host ? pair.host + at : (void *)(uintptr_t)r.address, value + at, length);
	if (host)
		return;
	ck_assert_int_eq(memory_leave(pair.m, device, 0, &r, 1, 0), 0);
	memory_settle(pair.m, device, &r, 1, seq);
}

/* It says just what is lost, and takes no more than its part of the buffer. */
static void check_record(void)
{
	const struct memory_extent *e = pair.buffer->lost;
	uint64_t from, to, born, at, taken;
	uint32_t where, nr = 0;
	uint64_t copies;

	ck_assert_int_eq(memory_check(pair.m), 0);
	if (!e)
		return;
	for (at = 0; extent_first_dirty(e, at, bytes, &from, &to, &born); at = to) {
		ck_assert(!memchr(lost + at, true, from - at));
		ck_assert(!memchr(lost + from, false, to - from));
		nr += to - from;
	}
	ck_assert(!memchr(lost + at, true, bytes - at));
	ck_assert_uint_ge(dirty_bytes(pair.buffer, 0, bytes, &where, &copies), nr);
	taken = e->dirty.size * sizeof(struct interval) + (e->map ? 8 * bits_words(bytes) : 0);
	ck_assert_uint_le(taken, bytes / 8 + 512);
	/* Bits end where what is lost does. */
	ck_assert(e->map ? nr > 0 : e->dirty.nr <= lost_most(pair.buffer));
}

static void read_all(void)
{
	for (uint32_t i = 0; i < bytes; i++) {
		struct memory_range r = pair_range(ARAX_IN, i, 1, 0, 1);

		ck_assert_int_eq(memory_flush(pair.m, &r), lost[i] ? -EIO : 0);
		ck_assert(lost[i] || pair.host[i] == value[i]);
	}
}

START_TEST(as_an_array_of_bytes)
{
	static const uint32_t sizes[] = { 1, 63, 64, 65, 1000, 4096, 5000, MOST };

	bytes = sizes[_i % 8];
	srand((unsigned int)_i);
	pair_start(bytes);
	memset(value, 0, sizeof(value));
	memset(lost, false, sizeof(lost));
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t device = draw(2);

		switch (draw(16)) {
		case 0:
			lose_device(device);
			break;
		case 1 ... 3:
			run(device, -ENODEV);
			break;
		case 4 ... 6:
			host_writes();
			break;
		case 7 ... 9:
			read_some(device);
			break;
		default:
			run(device, 0);
		}
		check_record();
	}
	read_all();
	pair_finish();
}
END_TEST

#define BITS	300u

START_TEST(bits_are_as_a_map_has_them)
{
	for (uint32_t round = 0; round < 2000; round++) {
		uint64_t map[(BITS + 63) / 64] = { 0 }, at, end, i;
		bool want[BITS] = { false };

		ck_assert_uint_eq(bits_words(BITS), sizeof(map) / sizeof(map[0]));
		for (uint32_t n = draw(40); n; n--) {
			bool have = draw(3);

			at = draw(BITS);
			end = at + draw(draw(2) ? 3 : (uint32_t)(BITS - at) + 1);
			end = end < BITS ? end : BITS;
			bits_fill(map, at, end, have);
			memset(want + at, have, end - at);
		}
		at = draw(BITS);
		end = at + draw((uint32_t)(BITS - at) + 1);
		for (uint32_t has = 0; has < 2; has++) {
			for (i = at; i < end && want[i] != has; i++)
				;
			ck_assert_uint_eq(bits_first(map, at, end, has), i);
		}
		for (i = end; i > at && !want[i - 1]; i--)
			;
		ck_assert_uint_eq(bits_end(map, at, end), i);
	}
}
END_TEST

TCase *anew_case(void)
{
	TCase *c = tcase_create("anew");

	tcase_set_timeout(c, 120);
	tcase_set_tags(c, "one-thread");
	tcase_add_loop_test(c, as_an_array_of_bytes, 0, 64);
	tcase_add_test(c, bits_are_as_a_map_has_them);
	return c;
}
