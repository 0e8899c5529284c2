// SPDX-License-Identifier: MIT
/* ml.c in OpenCL C: a work-item a row, or a product, or (zscore) a column. */

/* Runs of as many terms in each of eight sums.  y[r * classes + c] = row r of x times row c of w */
#define PRODUCT(type, suffix) \
static float dot_run_##suffix(__global const type *x, __global const float *w, ulong n) \
{ \
	float8 part = 0; \
	float sum = 0; \
	ulong i = 0; \
\
	for (; i + 8 <= n; i += 8) \
		part += convert_float8(vload8(0, x + i)) * vload8(0, w + i); \
	for (; i < n; i++) \
		sum += (float)x[i] * w[i]; \
	part.s0123 += part.s4567; \
	return sum + ((part.s0 + part.s1) + (part.s2 + part.s3)); \
} \
\
static float dot_##suffix(__global const type *x, __global const float *w, ulong n) \
{ \
	long_sum sum = 0; \
\
	if (n <= 8 * RUN) \
		return dot_run_##suffix(x, w, n); \
	for (ulong i = 0; i < n; i += 8 * RUN) \
		sum += dot_run_##suffix(x + i, w + i, min(n - i, (ulong)(8 * RUN))); \
	return (float)sum; \
} \
\
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
	ARAX_EACH(i, n) \
		y[i] = dot_##suffix(x + i / classes * features, w + i % classes * features, \
				    features); \
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
		float top = most[r];
		long_sum sum = 0;

		for (ulong i = 0; i < cols;) {
			ulong end = min(i + RUN, (ulong)cols);
			float part = 0;

			for (; i < end; i++)
				part += exp(x[r * cols + i] - top);
			sum += part;
		}
		lse[r] = top + log((float)sum);
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
		float most = extreme_of(row, 0, cols, 1), share;
		long_sum sum = 0;

		for (ulong i = 0; i < cols;) {
			ulong end = min(i + RUN, (ulong)cols);
			float part = 0;

			for (; i < end; i++) {
				float e = exp(row[i] - most);

				row[i] = e;
				part += e;
			}
			sum += part;
		}
		share = 1 / (float)sum;
		for (ulong i = 0; i < cols; i++)
			row[i] *= share;
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
