// SPDX-License-Identifier: MIT
#include "selftests/unit/far_map.h"

#include <math.h>
#include <sys/mman.h>

#include "selftests/unit/be_test.h"

#define GUARD	(1u << 20)

struct stretch stretch_make(uint64_t piece, uint32_t rows, uint64_t repeats)
{
	struct stretch s = { .piece = piece, .repeats = repeats, .rows = rows };
	uint64_t bytes = rows * (repeats + 1) * piece;
	int fd = memfd_create("far", MFD_CLOEXEC);
	char *at;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)((rows + 1) * piece)), 0);
	s.once = mmap(NULL, (rows + 1) * piece, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(s.once, MAP_FAILED);
	at = mmap(NULL, bytes + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		  -1, 0);
	ck_assert_ptr_ne(at, MAP_FAILED);
	at += GUARD;
	s.range = (struct arax_launch_range){ at, bytes, 0, 1 };
	for (uint32_t row = 0; row < rows; row++)
		for (uint64_t k = 0; k <= repeats; k++, at += piece) {
			off_t offset = k < repeats ? 0 : (off_t)((1 + row) * piece);

			ck_assert_msg(mmap(at, piece, PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_FIXED, fd, offset) == at,
				      "cannot map piece %lu: %m", (unsigned long)k);
		}
	close(fd);
	return s;
}

void stretch_end(struct stretch *s)
{
	munmap((char *)s->range.data - GUARD, s->range.length + 2 * GUARD);
	munmap(s->once, (s->rows + 1) * s->piece);
}

uint32_t far_random(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;	/* xorshift64 (Marsaglia 2003) */
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20);
}

/* -5 .. 5; of the repeated piece, if @sparse, few. */
static int number(uint64_t i, uint64_t items, bool sparse)
{
	if (sparse && i < items)
		return i % 4099 == 17 ? (int)(1 + i / 4099 % 2) : 0;
	return (int)(far_random() % 11) - 5;
}

/* @type: f(32), d (f64), i(32), b(ytes), p(ixels of three) */
uint32_t far_size_of(char type)
{
	return type == 'd' ? 8 : type == 'p' ? 3 : type == 'b' ? 1 : 4;
}

void stretch_fill(const struct stretch *s, char type, bool sparse)
{
	uint64_t items = s->piece / far_size_of(type), all = (1 + s->rows) * items;

	for (uint64_t i = 0; i < all; i++)
		if (type == 'd')
			((double *)s->once)[i] = number(i, items, sparse);
		else if (type == 'f')
			((float *)s->once)[i] = (float)number(i, items, sparse);
		else if (type == 'i')
			((int32_t *)s->once)[i] = number(i, items, sparse);
	if (type == 'b' || type == 'p')
		for (uint64_t i = 0; i < (1 + s->rows) * s->piece; i++)
			s->once[i] = (char)far_random();
}

struct stretch stretch_of(char type, uint32_t rows, uint64_t repeats, bool sparse)
{
	struct stretch s = stretch_make((uint64_t)far_size_of(type) << LOG_ITEMS, rows, repeats);

	stretch_fill(&s, type, sparse);
	return s;
}

struct arax_launch_range far_flat(void *data, uint64_t bytes)
{
	return (struct arax_launch_range){ data, bytes, 0, 1 };
}

/* The piece (@tail 0) or a row's tail, on its own. */
struct arax_launch_range stretch_part(const struct stretch *s, uint32_t tail)
{
	return far_flat(s->once + tail * s->piece, s->piece);
}

void far_near(const char *what, uint64_t i, double got, double wanted, double tolerance)
{
	ck_assert_msg(fabs(got - wanted) <= tolerance, "%s: item %lu is %.17g, not %.17g", what,
		      (unsigned long)i, got, wanted);
}
