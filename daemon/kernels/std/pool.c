// SPDX-License-Identifier: MIT
/*
 * Pooling, and what else layers of neural networks need besides convolution: planes of
 * f32, one a channel (of an image, of a batch), each rows without padding.  Work is dealt
 * to work-groups by rows of the output.
 */
#include "daemon/kernels/std/scratch.h"
#include "daemon/kernels/std/std.h"

int arax_std_mean_pool(const struct arax_launch *l);
int arax_std_max_pool_f32(const struct arax_launch *l);
int arax_std_avg_pool_f32(const struct arax_launch *l);
int arax_std_concat(const struct arax_launch *l);

struct pool_args {
	uint32_t width, height, channels, size;
};

STD_CLONES
static void add_rows(float *line, const float *src, uint64_t width, uint64_t rows)
{
	memcpy(line, src, width * sizeof(*line));
	for (uint64_t r = 1; r < rows; r++)
		for (uint64_t x = 0; x < width; x++)
			line[x] += src[r * width + x];
}

/*
 * mean_pool(in f32 src[], out f32 dst[], u32 width, u32 height, u32 channels, u32 size):
 * the mean of each square of size x size; what is left over to the right and below is dropped
 */
ARAX_KERNEL int arax_std_mean_pool(const struct arax_launch *l)
{
	uint64_t in, width, height, rows, y, end;
	struct pool_args a;
	const float *src;
	float *dst, *line, scale;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.size || a.size > a.width ||
	    a.size > a.height || !a.channels ||
	    __builtin_mul_overflow((uint64_t)a.width * a.height, a.channels, &in))
		return -EINVAL;
	width = a.width / a.size;
	height = a.height / a.size;
	rows = height * a.channels;
	src = ARAX_ITEMS(l, 0, in, float);
	dst = ARAX_ITEMS(l, 1, rows * width, float);
	if (!src || !dst)
		return -EINVAL;
	line = std_scratch(a.width, sizeof(*line));
	if (!line)
		return -ENOMEM;
	scale = 1 / ((float)a.size * (float)a.size);
	arax_launch_share(l, rows, &y, &end);
	for (; y < end; y++) {
		uint64_t first = y / height * a.height + y % height * a.size;

		add_rows(line, src + first * a.width, a.width, a.size);
		for (uint64_t x = 0; x < width; x++) {
			float sum = 0;

			for (uint64_t i = 0; i < a.size; i++)
				sum += line[x * a.size + i];
			dst[y * width + x] = sum * scale;
		}
	}
	std_scratch_free(line);
	return 0;
}

struct window_args {
	uint32_t planes, height, width, size, stride, pad;
};

struct window {
	struct window_args a;
	uint64_t out_width, out_height;
	const float *x;
	float *y;
};

static int window_bounds(const struct arax_launch *l, struct window *w)
{
	struct window_args *a = &w->a;
	uint64_t in, out = 0;

	/* So that each window has a pixel in it. */
	if (arax_launch_args(l, a, sizeof(*a)) || !a->width || !a->height || !a->size ||
	    !a->stride || a->pad > a->size / 2 || a->size > a->width + 2ull * a->pad ||
	    a->size > a->height + 2ull * a->pad)
		return -EINVAL;
	w->out_width = (a->width + 2ull * a->pad - a->size) / a->stride + 1;
	w->out_height = (a->height + 2ull * a->pad - a->size) / a->stride + 1;
	/* Of no planes there is never too much. */
	if (__builtin_mul_overflow((uint64_t)a->width * a->height, a->planes, &in) ||
	    (a->planes && (__builtin_mul_overflow(w->out_width, w->out_height, &out) ||
			   __builtin_mul_overflow(out, a->planes, &out))))
		return -EINVAL;
	w->x = ARAX_ITEMS(l, 0, in, float);
	w->y = ARAX_ITEMS(l, 1, out, float);
	return w->x && w->y ? 0 : -EINVAL;
}

/* Where window i begins and ends in a side of n. */
STD_INLINE void span_of(const struct window_args *a, uint64_t i, uint64_t n, uint64_t *begin,
			uint64_t *end)
{
	uint64_t at = i * a->stride, stop = at + a->size - a->pad;

	*begin = at > a->pad ? at - a->pad : 0;
	*end = stop < n ? stop : n;
}

/* The columns of a window's rows, put together: line[x].  A NaN is never greater. */
STD_INLINE void squeeze(float *line, const float *x, uint64_t width, uint64_t rows, bool most)
{
	for (uint64_t i = 0; i < width; i++)
		line[i] = !most || x[i] > -__builtin_inff() ? x[i] : -__builtin_inff();
	for (uint64_t r = 1; r < rows; r++)
		for (uint64_t i = 0; i < width; i++) {
			float v = x[r * width + i];

			line[i] = !most ? line[i] + v : v > line[i] ? v : line[i];
		}
}

STD_CLONES
static void pool_rows(const struct window *w, float *line, bool most, uint64_t row, uint64_t stop)
{
	const struct window_args *a = &w->a;

	for (; row < stop; row++) {
		uint64_t top, bottom, left, right;
		float *y = w->y + row * w->out_width;

		span_of(a, row % w->out_height, a->height, &top, &bottom);
		squeeze(line, w->x + (row / w->out_height * a->height + top) * a->width, a->width,
			bottom - top, most);
		for (uint64_t i = 0; i < w->out_width; i++) {
			float v;

			span_of(a, i, a->width, &left, &right);
			v = line[left];
			for (uint64_t k = left + 1; k < right; k++)
				v = !most ? v + line[k] : line[k] > v ? line[k] : v;
			y[i] = most ? v : v / (float)((right - left) * (bottom - top));
		}
	}
}

static int pool(const struct arax_launch *l, bool most)
{
	uint64_t begin, end;
	struct window w;
	float *line;
	int err = window_bounds(l, &w);

	if (err)
		return err;
	arax_launch_share(l, w.out_height * w.a.planes, &begin, &end);
	/* Without a plane there is no limit to how wide it would be. */
	if (begin == end)
		return 0;
	line = std_scratch(w.a.width, sizeof(*line));
	if (!line)
		return -ENOMEM;
	pool_rows(&w, line, most, begin, end);
	std_scratch_free(line);
	return 0;
}

/*
 * max_pool_f32(in f32 x[], out f32 y[], u32 planes, u32 height, u32 width, u32 size, u32 stride,
 *		u32 pad):
 * the greatest of each window of size x size, the first one `pad` (at most size / 2) beyond the
 * edges; what lies beyond them does not count, and a NaN is never greater: a window of these alone
 * has -infinity.  y is planes x out_height x out_width,
 * out = (side + 2 * pad - size) / stride + 1
 */
ARAX_KERNEL int arax_std_max_pool_f32(const struct arax_launch *l)
{
	return pool(l, true);
}

/* avg_pool_f32(...): the mean, of those that count */
ARAX_KERNEL int arax_std_avg_pool_f32(const struct arax_launch *l)
{
	return pool(l, false);
}

struct concat_args {
	uint32_t n, m;
};

/*
 * concat(in f32 a[], in f32 b[], out f32 c[], u32 n, u32 m): n items of a, then m of b.  Ranges may
 * overlap, whatever comes of it.
 */
ARAX_KERNEL int arax_std_concat(const struct arax_launch *l)
{
	struct concat_args args;
	uint64_t i, end, n;
	const float *a, *b;
	float *c;

	if (arax_launch_args(l, &args, sizeof(args)))
		return -EINVAL;
	n = args.n;
	a = ARAX_ITEMS(l, 0, n, float);
	b = ARAX_ITEMS(l, 1, args.m, float);
	c = ARAX_ITEMS(l, 2, n + args.m, float);
	if (!a || !b || !c)
		return -EINVAL;
	arax_launch_share(l, n + args.m, &i, &end);
	if (i < n && i < end) {
		uint64_t stop = end < n ? end : n;

		memmove(c + i, a + i, (stop - i) * sizeof(*c));
		i = stop;
	}
	if (i < end)
		memmove(c + i, b + (i - n), (end - i) * sizeof(*c));
	return 0;
}
