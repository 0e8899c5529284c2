// SPDX-License-Identifier: MIT
/*
 * scan.c in OpenCL C.  One work-group scans all (scan_*), or one work-item a part
 * (scan_parts_*).
 */

#define SCAN(type, wide, suffix) \
static void scan_piece_##suffix(__global const type *x, __global type *y, ulong i, ulong end, \
				wide sum, uint exclusive) \
{ \
	for (; i < end; i++) { \
		wide next = sum + x[i]; \
\
		y[i] = (type)(exclusive ? sum : next); \
		sum = next; \
	} \
} \
\
__kernel void arax_std_scan_##suffix(__global const type *x, ulong nx, __global type *y, ulong ny, \
				     uint n, uint exclusive, __global int *result) \
{ \
	__local wide parts[PARTS]; \
	ulong me = arax_item(), used = taking_part(); \
	wide sum = 0; \
\
	if (exclusive > 1 || SHORT(nx, n) || SHORT(ny, n)) { \
		*result = -EINVAL; \
		return; \
	} \
	if (arax_group()) \
		return; \
	if (me < used) { \
		for (ulong i = PIECE(n, me, used); i < PIECE(n, me + 1, used); i++) \
			sum += x[i]; \
		parts[me] = sum; \
	} \
	barrier(CLK_LOCAL_MEM_FENCE); \
	if (me < used) { \
		sum = 0; \
		for (ulong i = 0; i < me; i++) \
			sum += parts[i]; \
		scan_piece_##suffix(x, y, PIECE(n, me, used), PIECE(n, me + 1, used), sum, exclusive); \
	} \
} \
\
__kernel void arax_std_scan_parts_##suffix(__global const type *x, ulong nx, \
					   __global const wide *part, ulong npart, \
					   __global type *y, ulong ny, uint n, uint parts, \
					   uint exclusive, __global int *result) \
{ \
	if (exclusive > 1 || !parts || SHORT(nx, n) || SHORT(npart, parts) || SHORT(ny, n)) { \
		*result = -EINVAL; \
		return; \
	} \
	ARAX_EACH(p, parts) { \
		wide sum = 0; \
\
		for (ulong i = 0; i < p; i++) \
			sum += part[i]; \
		scan_piece_##suffix(x, y, PART(n, parts, p), PART(n, parts, p + 1), sum, exclusive); \
	} \
}

SCAN(uint, uint, u32)
#ifdef cl_khr_fp64
SCAN(float, double, f32)
#endif
