// SPDX-License-Identifier: MIT
/* grid.c in OpenCL C: the same sums in the same order. */

/* At an edge of a side that is `n` long. */
#define AT_EDGE(i, n)	(!(i) || (i) == (n) - 1)

__kernel void arax_std_stencil5_f32(__global const float *x, ulong nx, __global float *y, ulong ny,
				    uint width, uint height, float center, float side,
				    __global int *result)
{
	ulong n = (ulong)width * height;

	if (SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n) {
		ulong c = i % width, r = i / width;

		if (AT_EDGE(c, width) || AT_EDGE(r, height)) {
			y[i] = x[i];
		} else {
			float sum = x[i - width] + x[i + width];

			sum = sum + (x[i - 1] + x[i + 1]);
			y[i] = center * x[i] + side * sum;
		}
	}
}

__kernel void arax_std_stencil7_f32(__global const float *x, ulong nx, __global float *y, ulong ny,
				    uint width, uint height, uint depth, float center, float side,
				    __global int *result)
{
	ulong plane = (ulong)width * height, n;

	if (!product(width, height, depth, 1, min(nx, ny), &n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n) {
		ulong c = i % width, r = i / width % height, z = i / plane;

		if (AT_EDGE(c, width) || AT_EDGE(r, height) || AT_EDGE(z, depth)) {
			y[i] = x[i];
		} else {
			float sum = x[i - plane] + x[i + plane];

			sum = sum + (x[i - width] + x[i + width]);
			sum = sum + (x[i - 1] + x[i + 1]);
			y[i] = center * x[i] + side * sum;
		}
	}
}

__kernel void arax_std_transpose_f32(__global const float *x, ulong nx, __global float *y, ulong ny,
				     uint rows, uint cols, __global int *result)
{
	ulong n = (ulong)rows * cols;

	if (SHORT(nx, n) || SHORT(ny, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		y[i] = x[i % rows * cols + i / rows];
}
