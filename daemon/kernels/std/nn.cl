// SPDX-License-Identifier: MIT
/* conv.c and pool.c in OpenCL C: a work-item computes one item of the output at a time. */

#define MAX_SIZE	15u
#define MAX_STRIDE	16u
#define MAX_TAPS	65536u

struct conv {
	ulong channels, height, width, filters, out_height, out_width;
	uint kernel_h, kernel_w, stride, pad_h, pad_w;
	uint run;	/* channels that are added up before they go to the sum */
};

/* Item i of the output, which is batch x filters x out_height x out_width. */
static float conv_at(__global const float *src, __global const float *weights, const struct conv *c,
		     ulong i)
{
	long left = (long)(i % c->out_width * c->stride) - c->pad_w;
	long top = (long)(i / c->out_width % c->out_height * c->stride) - c->pad_h;
	ulong taps = c->channels * c->kernel_h * c->kernel_w;
	ulong plane = i / c->out_width / c->out_height;
	__global const float *w = weights + plane % c->filters * taps;
	__global const float *x = src + plane / c->filters * c->channels * c->height * c->width;
	/* The part of the kernel that lies on the image. */
	long i0 = max(0L, -left), i1 = min((long)c->kernel_w, (long)c->width - left);
	long j0 = max(0L, -top), j1 = min((long)c->kernel_h, (long)c->height - top);
	long_sum sum = 0;

	for (ulong k = 0; k < c->channels;) {
		ulong end = min(k + c->run, c->channels);
		float part = 0;

		for (; k < end; k++) {
			for (long j = j0; j < j1; j++)
				for (long m = i0; m < i1; m++)
					part += x[(top + j) * (long)c->width + left + m] *
						w[j * c->kernel_w + m];
			x += c->height * c->width;
			w += c->kernel_h * c->kernel_w;
		}
		sum += part;
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
