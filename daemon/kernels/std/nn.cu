// SPDX-License-Identifier: MIT
/*
 * conv.c and pool.c for GPUs: a thread computes one item of the output at a time, but for
 * convolutions with filters enough for tiles (product_gpu.h), of pixels and filters.
 */
#include "product_gpu.h"

#define MAX_SIZE	15u
#define MAX_STRIDE	16u
#define MAX_TAPS	65536u
#define TILE_FILTERS	8u		/* with fewer, most of a tile would be nothing */
#define TILE_SIDE	(1u << 29)	/* of an image: coordinates have room in 32 bits */

struct conv {
	uint64_t height, width, filters, out_height, out_width;
	uint32_t channels, kernel_h, kernel_w, stride, pad_h, pad_w;
	/* Channels, or of one whose window is longer than a run rows, that go to the sum at once. */
	int32_t run, rows;
};

static __device__ inline int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Of @channels channels, of a window's rows and columns from those on that @x and @w are of. */
static __device__ inline float part_of(const float *x, const float *w, const conv *c,
				       int32_t channels, int32_t rows, int32_t cols)
{
	float part = 0;

	for (; channels; channels--) {
		for (int32_t j = 0; j < rows; j++)
			for (int32_t m = 0; m < cols; m++)
				part += x[j * c->width + m] * w[j * (int64_t)c->kernel_w + m];
		x += c->height * c->width;
		w += c->kernel_h * c->kernel_w;
	}
	return part;
}

/* Of one channel, whose window is longer than a run: by rows, or by parts of these. */
static __device__ inline double large_part_of(const float *x, const float *w, const conv *c,
					      int32_t rows, int32_t cols)
{
	double sum = 0;

	for (int32_t j = 0; j < rows; j += c->rows)
		for (int32_t m = 0; m < cols; m += RUN)
			sum += part_of(x + j * c->width + m, w + j * (int64_t)c->kernel_w + m, c, 1,
				       (int32_t)least(rows - j, c->rows),
				       (int32_t)least(cols - m, RUN));
	return sum;
}

/* Item i of the output, which is batch x filters x out_height x out_width. */
static __device__ float conv_at(const float *src, const float *weights, const conv *c, uint64_t i)
{
	int64_t left = (int64_t)(i % c->out_width * c->stride) - c->pad_w;
	int64_t top = (int64_t)(i / c->out_width % c->out_height * c->stride) - c->pad_h;
	uint64_t taps = (uint64_t)c->channels * c->kernel_h * c->kernel_w;
	uint64_t plane = i / c->out_width / c->out_height;
	/* The part of the kernel that lies on the image; no side has more than MAX_TAPS. */
	int32_t i0 = left < 0 ? (int32_t)-left : 0, j0 = top < 0 ? (int32_t)-top : 0;
	int32_t cols = (int32_t)least(c->kernel_w, (int64_t)c->width - left) - i0;
	int32_t rows = (int32_t)least(c->kernel_h, (int64_t)c->height - top) - j0;
	const float *w = weights + plane % c->filters * taps + j0 * (int64_t)c->kernel_w + i0;
	const float *x = src + plane / c->filters * c->channels * c->height * c->width +
			 (top + j0) * (int64_t)c->width + left + i0;
	double sum = 0;

	for (int32_t k = (int32_t)c->channels; k > 0; k -= c->run) {
		int32_t n = k < c->run ? k : c->run;

		if (c->run > 1)
			sum += part_of(x, w, c, n, rows, cols);
		else
			sum += large_part_of(x, w, c, rows, cols);
		x += n * c->height * c->width;
		w += n * c->kernel_h * c->kernel_w;
	}
	return (float)sum;
}

/* Where the window of a pixel of the output begins; and where a term of a sum is in a window. */
struct pixel {
	int64_t at;
	int32_t top, left;
};

struct tap {
	int64_t at;
	int32_t row, col;
};

struct conv_tables {
	pixel pixels[TILE_DOWN];
	tap taps[TILE_DEPTH];
};

struct conv_job {
	const float *src, *weights, *bias;
	float *dst;
	const conv *c;
	conv_tables *tables;
	uint64_t pixels, plane;		/* of all images, and of one */
	uint32_t terms;
	bool relu;

	/* What is not there is so far out that no term is on the image. */
	__device__ void begin(uint64_t i0) const
	{
		for (uint32_t i = (uint32_t)arax_item(); i < TILE_DOWN; i += (uint32_t)arax_items()) {
			const uint64_t p = i0 + i, image = p / plane, rest = p % plane;
			pixel *to = &tables->pixels[i];

			to->top = -(int32_t)(2 * TILE_SIDE);
			to->left = to->top;
			to->at = 0;
			if (p >= pixels)
				continue;
			to->top = (int32_t)(rest / c->out_width * c->stride) - (int32_t)c->pad_h;
			to->left = (int32_t)(rest % c->out_width * c->stride) - (int32_t)c->pad_w;
			to->at = (int64_t)(image * c->channels * c->height * c->width) +
				 to->top * (int64_t)c->width + to->left;
		}
		next(0);
	}
	__device__ void next(uint64_t at) const
	{
		for (uint32_t i = (uint32_t)arax_item(); i < TILE_DEPTH; i += (uint32_t)arax_items()) {
			const uint32_t k = (uint32_t)at + i, window = c->kernel_h * c->kernel_w;
			const uint32_t row = k % window / c->kernel_w, col = k % window % c->kernel_w;
			tap *to = &tables->taps[i];

			to->row = k < terms ? (int32_t)row : (int32_t)(2 * TILE_SIDE);
			to->col = (int32_t)col;
			to->at = (int64_t)((k / window * c->height + row) * c->width + col);
		}
	}
	__device__ float term(const pixel &p, const tap &t) const
	{
		/* Both at once: no branch between reads. */
		const bool there = ((uint32_t)(p.top + t.row) < (uint32_t)c->height) &
				   ((uint32_t)(p.left + t.col) < (uint32_t)c->width);

		return there ? src[p.at + t.at] : 0;
	}
	__device__ void load(strips *s, uint64_t, uint64_t j0, uint64_t at) const
	{
		const uint32_t me = (uint32_t)arax_item(), items = (uint32_t)arax_items();

		if (block_fits()) {
			const uint32_t together = TILE_PIECES / TILE_DOWN;
			const uint32_t i = me % TILE_DOWN, d = me / TILE_DOWN;
			const pixel p = tables->pixels[i];
			strip_part<TILE_ACROSS, float> of_filters;
			float v[TILE_DEPTH / together];

			of_filters.read(weights, c->filters, terms, j0, at);
			for (uint32_t k = 0; k < TILE_DEPTH / together; k++)
				v[k] = term(p, tables->taps[d + k * together]);
			of_filters.write(s->across);
			for (uint32_t k = 0; k < TILE_DEPTH / together; k++)
				s->down[d + k * together][i] = v[k];
			return;
		}
		load_strip<TILE_ACROSS>(s->across, weights, c->filters, terms, j0, at);
		for (uint32_t i = me; i < TILE_DOWN * TILE_DEPTH; i += items)
			s->down[i / TILE_DOWN][i % TILE_DOWN] =
				term(tables->pixels[i % TILE_DOWN], tables->taps[i / TILE_DOWN]);
	}
	__device__ void put(uint64_t i, uint64_t j, float sum) const
	{
		if (i >= pixels || j >= c->filters)
			return;
		sum = bias ? sum + bias[j] : sum;
		dst[(i / plane * c->filters + j) * plane + i % plane] = relu && sum < 0 ? 0 : sum;
	}
};

/* All of @out items of the output; false: that is not for tiles.  All threads call it. */
static __device__ inline bool by_tiles(const conv *c, const float *src, const float *weights,
				       const float *bias, float *dst, uint64_t out, bool relu,
				       strips *s, conv_tables *tables)
{
	const uint64_t pixels = c->filters ? out / c->filters : 0;
	const uint64_t down = (pixels + TILE_DOWN - 1) / TILE_DOWN;
	const uint64_t across = (c->filters + TILE_ACROSS - 1) / TILE_ACROSS;
	const conv_job job = { src, weights, bias, dst, c, tables, pixels,
			       c->out_height * c->out_width,
			       c->channels * c->kernel_h * c->kernel_w, relu };

	if (c->filters < TILE_FILTERS || c->height > TILE_SIDE || c->width > TILE_SIDE)
		return false;
	for (uint64_t t = arax_group(); t < down * across; t += arax_groups())
		product_tile(job, s, pixels, job.terms, t / across * TILE_DOWN,
			     t % across * TILE_ACROSS);
	return true;
}

ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_std_conv_relu(const float *src, uint64_t nsrc, const float *weights, uint64_t nweights,
		   float *dst, uint64_t ndst, uint32_t width, uint32_t height, uint32_t channels,
		   uint32_t filters, uint32_t size, uint32_t stride, arax_gpu_result result)
{
	__shared__ strips s;
	__shared__ conv_tables tables;
	uint64_t in, out;
	conv c;

	if (result.canceled())
		return;
	if (!width || !height || !channels || !filters || !(size & 1) || size > MAX_SIZE ||
	    !stride || stride > MAX_STRIDE) {
		*result = -EINVAL;
		return;
	}
	c.channels = channels;
	c.height = height;
	c.width = width;
	c.filters = filters;
	c.kernel_h = size;
	c.kernel_w = size;
	c.stride = stride;
	c.run = RUN / (size * size) + 1;
	c.rows = RUN / size + 1;
	c.pad_h = size / 2;
	c.pad_w = size / 2;
	c.out_height = ((uint64_t)height + stride - 1) / stride;
	c.out_width = ((uint64_t)width + stride - 1) / stride;
	if ((uint64_t)channels * size * size > MAX_TAPS ||
	    SHORT(nweights, (uint64_t)filters * channels * size * size) ||
	    !product(width, height, channels, nsrc, &in) ||
	    !product(c.out_width, c.out_height, filters, ndst, &out)) {
		*result = -EINVAL;
		return;
	}
	if (by_tiles(&c, src, weights, NULL, dst, out, true, &s, &tables))
		return;
	ARAX_EACH(i, out) {
		float v = conv_at(src, weights, &c, i);

		dst[i] = v < 0 ? 0 : v;
	}
}

ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_std_conv2d_f32(const float *x, uint64_t nx, const float *weights, uint64_t nweights,
		    const float *bias, uint64_t nbias, float *y, uint64_t ny, uint32_t batch,
		    uint32_t channels, uint32_t height, uint32_t width, uint32_t filters,
		    uint32_t kernel_h, uint32_t kernel_w, uint32_t stride, uint32_t pad,
		    arax_gpu_result result)
{
	__shared__ strips s;
	__shared__ conv_tables tables;
	uint64_t padded_h = height + 2 * (uint64_t)pad, padded_w = width + 2 * (uint64_t)pad, in, out;
	conv c;

	if (result.canceled())
		return;
	if (!channels || !height || !width || !kernel_h || !kernel_w || !stride ||
	    channels > MAX_TAPS || kernel_h > MAX_TAPS || kernel_w > MAX_TAPS ||
	    (pad >= kernel_h && pad >= kernel_w) || kernel_h > padded_h || kernel_w > padded_w) {
		*result = -EINVAL;
		return;
	}
	c.channels = channels;
	c.height = height;
	c.width = width;
	c.filters = filters;
	c.kernel_h = kernel_h;
	c.kernel_w = kernel_w;
	c.stride = stride;
	c.run = RUN / kernel_h / kernel_w + 1;
	c.rows = RUN / kernel_w + 1;
	c.pad_h = pad;
	c.pad_w = pad;
	c.out_height = (padded_h - kernel_h) / stride + 1;
	c.out_width = (padded_w - kernel_w) / stride + 1;
	if ((uint64_t)channels * kernel_h * kernel_w > MAX_TAPS ||
	    SHORT(nweights, (uint64_t)filters * channels * kernel_h * kernel_w) ||
	    (nbias && SHORT(nbias, filters)) ||
	    !product(width, height, channels, batch, nx, &in) ||
	    !product(c.out_width, c.out_height, filters, batch, ny, &out)) {
		*result = -EINVAL;
		return;
	}
	if (by_tiles(&c, x, weights, nbias ? bias : NULL, y, out, false, &s, &tables))
		return;
	ARAX_EACH(i, out) {
		float v = conv_at(x, weights, &c, i);

		y[i] = nbias ? v + bias[i / c.out_width / c.out_height % filters] : v;
	}
}

static __device__ inline float few_rows(const float *x, uint64_t width, uint64_t rows,
					uint64_t cols)
{
	float sum = 0;

	for (uint64_t r = 0; r < rows; r++)
		for (uint64_t k = 0; k < cols; k++)
			sum += x[r * width + k];
	return sum;
}

/* Of @rows rows of @cols items, neither of them 0. */
static __device__ inline float sum_of(const float *x, uint64_t width, uint64_t rows, uint64_t cols)
{
	double sum = 0;
	uint64_t run;

	if (rows * cols <= RUN)
		return few_rows(x, width, rows, cols);
	run = RUN / cols + 1;
	for (uint64_t r = 0; r < rows; r += run)
		sum += few_rows(x + r * width, width, (uint64_t)least((int64_t)run, (int64_t)(rows - r)),
				cols);
	return (float)sum;
}

ARAX_GPU_KERNEL arax_std_mean_pool(const float *src, uint64_t nsrc, float *dst, uint64_t ndst,
				   uint32_t width, uint32_t height, uint32_t channels,
				   uint32_t size, arax_gpu_result result)
{
	uint64_t in, out, w, h;

	if (result.canceled())
		return;
	if (!size || size > width || size > height || !channels) {
		*result = -EINVAL;
		return;
	}
	w = width / size;
	h = height / size;
	if (!product(width, height, channels, nsrc, &in) || !product(w, h, channels, ndst, &out)) {
		*result = -EINVAL;
		return;
	}
	float scale = 1 / ((float)size * (float)size);

	for (walk3 at = walk3_begin(out, w, h); at.in.i < at.in.end; walk3_on(&at)) {
		uint64_t top = at.plane * (uint64_t)height + at.row * size, left = at.in.col * size;

		dst[at.in.i] = sum_of(src + top * width + left, width, size, size) * scale;
	}
}

/* Where window i begins and ends in a side of n. */
static __device__ inline uint64_t span_begin(uint64_t i, uint32_t stride, uint32_t pad)
{
	return i * stride > pad ? i * stride - pad : 0;
}

static __device__ inline uint64_t span_end(uint64_t i, uint32_t stride, uint32_t pad, uint32_t size,
					   uint64_t n)
{
	uint64_t end = i * stride + size - pad;

	return end < n ? end : n;
}

static __device__ void pool(const float *x, uint64_t nx, float *y, uint64_t ny, uint32_t planes,
			    uint64_t height, uint64_t width, uint32_t size, uint32_t stride,
			    uint32_t pad, bool most, arax_gpu_result result)
{
	uint64_t padded_h = height + 2 * (uint64_t)pad, padded_w = width + 2 * (uint64_t)pad;
	uint64_t in, out, w, h;

	if (!width || !height || !size || !stride || pad > size / 2 || size > padded_h ||
	    size > padded_w) {
		*result = -EINVAL;
		return;
	}
	w = (padded_w - size) / stride + 1;
	h = (padded_h - size) / stride + 1;
	if (!product(width, height, planes, nx, &in) || !product(w, h, planes, ny, &out)) {
		*result = -EINVAL;
		return;
	}
	for (walk3 at = walk3_begin(out, w, h); at.in.i < at.in.end; walk3_on(&at)) {
		uint64_t top = span_begin(at.row, stride, pad), left = span_begin(at.in.col, stride, pad);
		uint64_t bottom = span_end(at.row, stride, pad, size, height);
		uint64_t right = span_end(at.in.col, stride, pad, size, width);
		const float *plane = x + at.plane * height * width;
		float best = -__builtin_huge_valf();

		for (uint64_t r = top; most && r < bottom; r++)
			for (uint64_t k = left; k < right; k++) {
				float v = plane[r * width + k];

				best = v > best ? v : best;
			}
		y[at.in.i] = most ? best : sum_of(plane + top * width + left, width, bottom - top,
						  right - left) /
					   (float)((right - left) * (bottom - top));
	}
}

ARAX_GPU_KERNEL arax_std_max_pool_f32(const float *x, uint64_t nx, float *y, uint64_t ny,
				      uint32_t planes, uint32_t height, uint32_t width, uint32_t size,
				      uint32_t stride, uint32_t pad, arax_gpu_result result)
{
	if (result.canceled())
		return;
	pool(x, nx, y, ny, planes, height, width, size, stride, pad, true, result);
}

ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_std_avg_pool_f32(const float *x, uint64_t nx, float *y, uint64_t ny, uint32_t planes,
		      uint32_t height, uint32_t width, uint32_t size, uint32_t stride, uint32_t pad,
		      arax_gpu_result result)
{
	if (result.canceled())
		return;
	pool(x, nx, y, ny, planes, height, width, size, stride, pad, false, result);
}

ARAX_GPU_KERNEL arax_std_concat(const float *a, uint64_t na, const float *b, uint64_t nb, float *c,
				uint64_t nc, uint32_t n, uint32_t m, arax_gpu_result result)
{
	uint64_t all = (uint64_t)n + m;

	if (result.canceled())
		return;
	if (SHORT(na, n) || SHORT(nb, m) || SHORT(nc, all)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, all)
		c[i] = i < n ? a[i] : b[i - n];
}
