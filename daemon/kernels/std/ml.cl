// SPDX-License-Identifier: MIT
/* ml.c in OpenCL C: a work-item a row, or a product, or (zscore) a column. */

/* y[r * classes + c] = row r of x times row c of w */
#define PRODUCT(type, suffix) \
__kernel void arax_std_matmul_##suffix(__global const type *x, ulong nx, __global const float *w, \
				       ulong nw, __global float *y, ulong ny, uint rows, \
				       uint features, uint classes, __global int *result) \
{ \
	ulong n = (ulong)rows * classes; \
\
	if (SHORT(nx, (ulong)rows * features) || SHORT(nw, (ulong)classes * features) || \
	    SHORT(ny, n)) { \
		*result = -EINVAL; \
		return; \
	} \
	ARAX_EACH(i, n) { \
		ulong in = i / classes * features, weights = i % classes * features, f = 0; \
		float8 part = 0; \
		float sum = 0; \
\
		for (; f + 8 <= features; f += 8) \
			part += convert_float8(vload8(0, x + in + f)) * vload8(0, w + weights + f); \
		for (; f < features; f++) \
			sum += (float)x[in + f] * w[weights + f]; \
		part.s0123 += part.s4567; \
		y[i] = sum + ((part.s0 + part.s1) + (part.s2 + part.s3)); \
	} \
}

PRODUCT(int, i32)
PRODUCT(float, f32)

__kernel void arax_std_row_max(__global const float *x, ulong nx, __global float *most, ulong nmost,
			       uint rows, uint cols, __global int *result)
{
	if (!cols || SHORT(nx, (ulong)rows * cols) || SHORT(nmost, rows)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(r, rows)
		most[r] = extreme_of(x, r * cols, (r + 1) * cols, 1);
}

__kernel void arax_std_log_sum_exp(__global const float *x, ulong nx, __global const float *most,
				   ulong nmost, __global float *lse, ulong nlse, uint rows,
				   uint cols,
				   __global int *result)
{
	if (!cols || SHORT(nx, (ulong)rows * cols) || SHORT(nmost, rows) || SHORT(nlse, rows)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(r, rows) {
		float sum = 0, top = most[r];

		for (ulong i = 0; i < cols; i++)
			sum += exp(x[r * cols + i] - top);
		lse[r] = top + log(sum);
	}
}

__kernel void arax_std_exp_rows(__global const float *less, ulong nless, __global float *x,
				ulong nx,
				uint rows, uint cols, __global int *result)
{
	ulong n = (ulong)rows * cols;

	if (!cols || SHORT(nless, rows) || SHORT(nx, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		x[i] = exp(x[i] - less[i / cols]);
}

__kernel void arax_std_softmax(__global float *x, ulong nx, uint rows, uint cols,
			       __global int *result)
{
	if (!cols || SHORT(nx, (ulong)rows * cols)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(r, rows) {
		__global float *row = x + r * cols;
		float sum = 0, most = extreme_of(row, 0, cols, 1);

		for (ulong i = 0; i < cols; i++) {
			float e = exp(row[i] - most);

			row[i] = e;
			sum += e;
		}
		sum = 1 / sum;
		for (ulong i = 0; i < cols; i++)
			row[i] *= sum;
	}
}

__kernel void arax_std_add_row(__global const float *row, ulong nrow, __global float *x, ulong nx,
			       uint rows, uint cols, __global int *result)
{
	ulong n = (ulong)rows * cols;

	if (!cols || SHORT(nrow, cols) || SHORT(nx, n)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(i, n)
		x[i] += row[i % cols];
}

__kernel void arax_std_argmax_sum(__global const float *a, ulong na, __global const float *b,
				  ulong nb, __global uint *best, ulong nbest, uint rows, uint cols,
				  __global int *result)
{
	ulong n = (ulong)rows * cols;

	if (!cols || SHORT(na, n) || SHORT(nb, n) || SHORT(nbest, rows)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(r, rows) {
		float most = -INFINITY;
		uint at = 0;

		for (uint i = 0; i < cols; i++) {
			float v = a[r * cols + i] + b[r * cols + i];

			if (v > most) {
				most = v;
				at = i;
			}
		}
		best[r] = at;
	}
}

#ifdef cl_khr_fp64
__kernel void arax_std_zscore(__global const int *x, ulong nx, __global float *z, ulong nz,
			      uint rows, uint cols, __global int *result)
{
	ulong n = (ulong)rows * cols;

	if (!cols || SHORT(nx, n) || SHORT(nz, n)) {
		*result = -EINVAL;
		return;
	}
	if (!rows)
		return;
	ARAX_EACH(c, cols) {
		double first = x[c], sum = 0, squares = 0, mean, variance, scale;

		for (ulong i = c; i < n; i += cols) {
			double d = x[i] - first;

			sum += d;
			squares += d * d;
		}
		mean = sum / rows;
		variance = squares / rows - mean * mean;
		scale = variance > 0 ? 1 / sqrt(variance) : 0;
		mean += first;
		for (ulong i = c; i < n; i += cols)
			z[i] = (float)((x[i] - mean) * scale);
	}
}
#endif
