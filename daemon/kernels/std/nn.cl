// SPDX-License-Identifier: MIT
/* conv.c and pool.c in OpenCL C: a work-item computes one item of the output at a time. */

#define MAX_SIZE	15u
#define MAX_STRIDE	16u
#define MAX_TAPS	65536u

struct conv {
	ulong height, width, filters, out_height, out_width;
	uint channels, kernel_h, kernel_w, stride, pad_h, pad_w;
	/* Channels, or of one whose window is longer than a run rows, that go to the sum at once. */
	int run, rows;
};

/* Of `channels` channels, of a window's rows and columns from those on that x and w are of. */
static float part_of(__global const float *x, __global const float *w, const struct conv *c,
		     int channels, int rows, int cols)
{
	float part = 0;

	for (; channels; channels--) {
		for (int j = 0; j < rows; j++)
			for (int m = 0; m < cols; m++)
				part += x[j * c->width + m] * w[j * (long)c->kernel_w + m];
		x += c->height * c->width;
		w += c->kernel_h * c->kernel_w;
	}
	return part;
}

/* Of one channel, whose window is longer than a run: by rows, or by parts of these. */
static long_sum large_part_of(__global const float *x, __global const float *w,
			      const struct conv *c, int rows, int cols)
{
	long_sum sum = 0;

	for (int j = 0; j < rows; j += c->rows)
		for (int m = 0; m < cols; m += RUN)
			sum += part_of(x + j * c->width + m, w + j * (long)c->kernel_w + m, c, 1,
				       min(rows - j, c->rows), min(cols - m, (int)RUN));
	return sum;
}

/* Item i of the output, which is batch x filters x out_height x out_width. */
static float conv_at(__global const float *src, __global const float *weights, const struct conv *c,
		     ulong i)
{
	long left = (long)(i % c->out_width * c->stride) - c->pad_w;
	long top = (long)(i / c->out_width % c->out_height * c->stride) - c->pad_h;
	ulong taps = (ulong)c->channels * c->kernel_h * c->kernel_w;
	ulong plane = i / c->out_width / c->out_height;
	/* The part of the kernel that lies on the image; no side has more than MAX_TAPS. */
	int i0 = (int)max(0L, -left), j0 = (int)max(0L, -top);
	int cols = (int)min((long)c->kernel_w, (long)c->width - left) - i0;
	int rows = (int)min((long)c->kernel_h, (long)c->height - top) - j0;
	__global const float *w = weights + plane % c->filters * taps + j0 * (long)c->kernel_w + i0;
	__global const float *x = src + plane / c->filters * c->channels * c->height * c->width +
				  (top + j0) * (long)c->width + left + i0;
	long_sum sum = 0;

	for (int k = (int)c->channels; k > 0; k -= c->run) {
		int n = min(k, c->run);

		if (c->run > 1)
			sum += part_of(x, w, c, n, rows, cols);
		else
			sum += large_part_of(x, w, c, rows, cols);
		x += n * c->height * c->width;
		w += n * c->kernel_h * c->kernel_w;
	}
	return (float)sum;
}

__kernel void arax_std_conv_relu(__global const float *src, ulong nsrc,
				 __global const float *weights, ulong nweights,
				 __global float *dst, ulong ndst, uint width, uint height,
				 uint channels, uint filters, uint size, uint stride,
				 __global int *result)
{
	ulong in, out;
	struct conv c;

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
	c.out_height = ((ulong)height + stride - 1) / stride;
	c.out_width = ((ulong)width + stride - 1) / stride;
	if ((ulong)channels * size * size > MAX_TAPS ||
	    SHORT(nweights, (ulong)filters * channels * size * size) ||
	    !product(width, height, channels, 1, nsrc, &in) ||
	    !product(c.out_width, c.out_height, filters, 1, ndst, &out)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, out) {
		float v = conv_at(src, weights, &c, i);

		dst[i] = v < 0 ? 0 : v;
	}
}

__kernel void arax_std_conv2d_f32(__global const float *x, ulong nx, __global const float *weights,
				  ulong nweights, __global const float *bias, ulong nbias,
				  __global float *y, ulong ny, uint batch, uint channels,
				  uint height, uint width, uint filters, uint kernel_h,
				  uint kernel_w, uint stride, uint pad, __global int *result)
{
	ulong padded_h = height + 2 * (ulong)pad, padded_w = width + 2 * (ulong)pad, in, out;
	struct conv c;

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
	if ((ulong)channels * kernel_h * kernel_w > MAX_TAPS ||
	    SHORT(nweights, (ulong)filters * channels * kernel_h * kernel_w) ||
	    (nbias && SHORT(nbias, filters)) ||
	    !product(width, height, channels, batch, nx, &in) ||
	    !product(c.out_width, c.out_height, filters, batch, ny, &out)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, out) {
		float v = conv_at(x, weights, &c, i);

		y[i] = nbias ? v + bias[i / c.out_width / c.out_height % filters] : v;
	}
}

static float few_rows(__global const float *x, ulong width, ulong rows, ulong cols)
{
	float sum = 0;

	for (ulong r = 0; r < rows; r++)
		for (ulong k = 0; k < cols; k++)
			sum += x[r * width + k];
	return sum;
}

/* Of `rows` rows of `cols` items, neither of them 0. */
static float sum_of(__global const float *x, ulong width, ulong rows, ulong cols)
{
	long_sum sum = 0;
	ulong run;

	if (rows * cols <= RUN)
		return few_rows(x, width, rows, cols);
	run = RUN / cols + 1;
	for (ulong r = 0; r < rows; r += run)
		sum += few_rows(x + r * width, width, min(run, rows - r), cols);
	return (float)sum;
}

__kernel void arax_std_mean_pool(__global const float *src, ulong nsrc, __global float *dst,
				 ulong ndst, uint width, uint height, uint channels, uint size,
				 __global int *result)
{
	ulong in, out, w, h;

	if (!size || size > width || size > height || !channels) {
		*result = -EINVAL;
		return;
	}
	w = width / size;
	h = height / size;
	if (!product(width, height, channels, 1, nsrc, &in) ||
	    !product(w, h, channels, 1, ndst, &out)) {
		*result = -EINVAL;
		return;
	}
	float scale = 1 / ((float)size * (float)size);

	ARAX_EACH(i, out) {
		ulong top = i / w / h * height + i / w % h * size, left = i % w * size;

		dst[i] = sum_of(src + top * width + left, width, size, size) * scale;
	}
}

/* Where window i begins and ends in a side of n. */
static ulong span_begin(ulong i, uint stride, uint pad)
{
	return i * stride > pad ? i * stride - pad : 0;
}

static ulong span_end(ulong i, uint stride, uint pad, uint size, ulong n)
{
	return min(i * stride + size - pad, n);
}

static void pool(__global const float *x, ulong nx, __global float *y, ulong ny, uint planes,
		 ulong height, ulong width, uint size, uint stride, uint pad, bool most,
		 __global int *result)
{
	ulong padded_h = height + 2 * (ulong)pad, padded_w = width + 2 * (ulong)pad, in, out, w, h;

	if (!width || !height || !size || !stride || pad > size / 2 || size > padded_h ||
	    size > padded_w) {
		*result = -EINVAL;
		return;
	}
	w = (padded_w - size) / stride + 1;
	h = (padded_h - size) / stride + 1;
	if (!product(width, height, planes, 1, nx, &in) || !product(w, h, planes, 1, ny, &out)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, out) {
		ulong top = span_begin(i / w % h, stride, pad),
			left = span_begin(i % w, stride, pad);
		ulong bottom = span_end(i / w % h, stride, pad, size, height);
		ulong right = span_end(i % w, stride, pad, size, width);
		__global const float *plane = x + i / w / h * height * width;
		float best = -INFINITY;

		for (ulong r = top; most && r < bottom; r++)
			for (ulong k = left; k < right; k++) {
				float v = plane[r * width + k];

				best = v > best ? v : best;
			}
		y[i] = most ? best : sum_of(plane + top * width + left, width, bottom - top,
					    right - left) /
				     (float)((right - left) * (bottom - top));
	}
}

__kernel void arax_std_max_pool_f32(__global const float *x, ulong nx, __global float *y, ulong ny,
				    uint planes, uint height, uint width, uint size, uint stride,
				    uint pad, __global int *result)
{
	pool(x, nx, y, ny, planes, height, width, size, stride, pad, true, result);
}

__kernel void arax_std_avg_pool_f32(__global const float *x, ulong nx, __global float *y, ulong ny,
				    uint planes, uint height, uint width, uint size, uint stride,
				    uint pad, __global int *result)
{
	pool(x, nx, y, ny, planes, height, width, size, stride, pad, false, result);
}

__kernel void arax_std_concat(__global const float *a, ulong na, __global const float *b, ulong nb,
			      __global float *c, ulong nc, uint n, uint m, __global int *result)
{
	ulong all = (ulong)n + m;

	if (SHORT(na, n) || SHORT(nb, m) || SHORT(nc, all)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, all)
		c[i] = i < n ? a[i] : b[i - n];
}
