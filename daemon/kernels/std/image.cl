// SPDX-License-Identifier: MIT
/*
 * image.c in OpenCL C.  The CPU's blur goes down and then across a whole row;
 * this one computes each pixel by itself, with the same sums in the same order.
 */

#define BLUR_MAX_SIZE 129u

static float clamp01(float v)
{
	v = v > 0 ? v : 0;	/* a NaN becomes 0 */
	return v < 1 ? v : 1;
}

__kernel void arax_std_rgb_to_gray(__global const uchar *rgb, ulong nrgb, __global float *gray,
				   ulong ngray, uint n, __global int *result)
{
	if (SHORT(nrgb, 3 * (ulong)n) || SHORT(ngray, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)		/* Rec. 709 */
		gray[i] = (0.2126f * rgb[3 * i] + 0.7152f * rgb[3 * i + 1] +
			   0.0722f * rgb[3 * i + 2]) / 255;
}

__kernel void arax_std_gray_to_u8(__global const float *gray, ulong ngray, __global uchar *out,
				  ulong nout, uint n, __global int *result)
{
	if (SHORT(ngray, n) || SHORT(nout, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		out[i] = (uchar)(clamp01(gray[i]) * 255 + 0.5f);
}

/* Half of a symmetric window, weights that add up to 1: w[0] is the middle. */
static void gauss(float *w, uint radius, float sigma)
{
	float sum = 0;

	for (uint i = 0; i <= radius; i++) {
		/* The square of a sigma that is small would be 0. */
		float far = (float)i / sigma;

		w[i] = exp(-0.5f * far * far);
		sum += i ? 2 * w[i] : w[i];
	}
	for (uint i = 0; i <= radius; i++)
		w[i] /= sum;
}

/* Rows and columns beyond the edge repeat it. */
static float blur_down(__global const float *src, ulong width, ulong height, ulong x, ulong y,
		       const float *w, ulong radius)
{
	float sum = w[0] * src[y * width + x];

	for (ulong i = 1; i <= radius; i++) {
		ulong up = y >= i ? y - i : 0, down = min(y + i, height - 1);

		sum += w[i] * (src[up * width + x] + src[down * width + x]);
	}
	return sum;
}

/* Each work-item computes the weights for itself: so one without a pixel does not. */
__kernel void arax_std_blur(__global const float *src, ulong nsrc, __global float *dst, ulong ndst,
			    uint width, uint height, uint size, float sigma, __global int *result)
{
	float w[BLUR_MAX_SIZE / 2 + 1];
	ulong n = (ulong)width * height, radius = size / 2;

	if (!width || !height || !(size & 1) || size > BLUR_MAX_SIZE || !(sigma > 0) ||
	    SHORT(nsrc, n) || SHORT(ndst, n)) {
		*result = -EINVAL;
		return;
	}
	if (arax_share(n, arax_group()) + arax_item() >= arax_share(n, arax_group() + 1))
		return;
	gauss(w, radius, sigma);
	ARAX_EACH(i, n) {
		ulong x = i % width, y = i / width;
		float sum = w[0] * blur_down(src, width, height, x, y, w, radius);

		for (ulong j = 1; j <= radius; j++) {
			ulong left = x >= j ? x - j : 0, right = min(x + j, (ulong)width - 1);

			sum += w[j] * (blur_down(src, width, height, right, y, w, radius) +
				       blur_down(src, width, height, left, y, w, radius));
		}
		dst[i] = sum;
	}
}

__kernel void arax_std_sobel(__global const float *src, ulong nsrc, __global float *dst, ulong ndst,
			     uint width, uint height, __global int *result)
{
	ulong n = (ulong)width * height;

	if (!width || !height || SHORT(nsrc, n) || SHORT(ndst, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n) {
		ulong x = i % width, y = i / width;
		__global const float *mid = src + y * width;
		__global const float *up = y ? mid - width : mid;
		__global const float *down = y + 1 < height ? mid + width : mid;
		ulong a = x ? x - 1 : 0, b = x + 1 < width ? x + 1 : x;
		float gx = up[b] - up[a] + 2 * (mid[b] - mid[a]) + down[b] - down[a];
		float gy = down[a] - up[a] + 2 * (down[x] - up[x]) + down[b] - up[b];

		dst[i] = sqrt(gx * gx + gy * gy);
	}
}

__kernel void arax_std_extend(__global const float *low, ulong nlow, __global const float *high,
			      ulong nhigh, __global float *x, ulong nx, uint n,
			      __global int *result)
{
	if (nlow < 1 || nhigh < 1 || SHORT(nx, n)) {
		*result = -EINVAL;
		return;
	}
	float min_x = low[0], span = high[0] - min_x;

	ARAX_EACH(i, n) {
		float v = span > 0 ? 5 * (x[i] - min_x) / span : 0;

		x[i] = v < 1 ? v : 1;
	}
}

__kernel void arax_std_unsharpen(__global const float *x, ulong nx, __global const float *blurred,
				 ulong nblurred, __global float *y, ulong ny, float amount, uint n,
				 __global int *result)
{
	if (SHORT(nx, n) || SHORT(nblurred, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		y[i] = clamp01(x[i] * (1 + amount) - blurred[i] * amount);
}

__kernel void arax_std_combine(__global const float *x, ulong nx, __global const float *y, ulong ny,
			       __global const float *mask, ulong nmask, __global float *z, ulong nz,
			       uint n, __global int *result)
{
	if (SHORT(nx, n) || SHORT(ny, n) || SHORT(nmask, n) || SHORT(nz, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		z[i] = x[i] * mask[i] + y[i] * (1 - mask[i]);
}
