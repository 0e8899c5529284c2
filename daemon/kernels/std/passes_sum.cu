// SPDX-License-Identifier: MIT
/* Into one number: a part of each block, then of all parts.  See passes.cu. */

template <typename T> struct sum_of {
	typedef T item;
	typedef double number;
	static const bool two = false;

	__device__ double none() const
	{
		return 0;
	}
	__device__ double with(double sum, T x, T) const
	{
		return sum + (double)x;
	}
	__device__ double put(double a, double b) const
	{
		return a + b;
	}
};

struct sum_of_words : sum_of<uint32_t> {
	typedef uint32_t number;

	__device__ uint32_t none() const
	{
		return 0;
	}
	__device__ uint32_t with(uint32_t sum, uint32_t x, uint32_t) const
	{
		return sum + x;
	}
	__device__ uint32_t put(uint32_t a, uint32_t b) const
	{
		return a + b;
	}
};

struct sum_of_products : sum_of<float> {
	static const bool two = true;

	__device__ double with(double sum, float x, float y) const
	{
		return sum + (double)x * (double)y;
	}
};

struct sum_of_differences : sum_of<float> {
	static const bool two = true;

	__device__ double with(double sum, float x, float y) const
	{
		return sum + (double)(x - y);
	}
};

/* The greatest of sign * x; a NaN is never greater. */
struct greatest {
	typedef float item;
	typedef float number;
	static const bool two = false;
	float sign;

	__device__ float none() const
	{
		return -__builtin_huge_valf();
	}
	__device__ float with(float best, float x, float) const
	{
		float v = sign * x;

		return v > best ? v : best;
	}
	__device__ float put(float a, float b) const
	{
		return b > a ? b : a;
	}
};

/* Of items @first, @first + @step ... below @n, one at a time. */
template <class Op>
static __device__ inline typename Op::number
one_by_one(const Op &op, typename Op::number all, const typename Op::item *x,
	   const typename Op::item *y, uint64_t first, uint64_t n, uint64_t step)
{
	for (uint64_t i = first; i < n; i += step)
		all = op.with(all, x[i], Op::two ? y[i] : x[i]);
	return all;
}

/* The share of thread @me of @step: of @x's @n items (and @y's), in some order that these three give. */
template <class Op>
static __device__ inline typename Op::number
share_of(const Op &op, const typename Op::item *x, const typename Op::item *y, uint64_t n,
	 uint64_t me, uint64_t step)
{
	typedef typename Op::item item;
	const uint32_t each = WIDE / sizeof(item);
	const bool apart = Op::two && ((uintptr_t)x ^ (uintptr_t)y) % WIDE;
	const uint64_t head = apart ? n : before_aligned(x, n), nr = (n - head) / each;
	const wide<item> *wx = (const wide<item> *)(x + head), *wy = (const wide<item> *)(y + head);
	typename Op::number all[AHEAD];
	uint64_t i = me;

	for (uint32_t a = 0; a < AHEAD; a++)
		all[a] = op.none();
	for (; i + (AHEAD - 1) * step < nr; i += AHEAD * step) {
		wide<item> vx[AHEAD], vy[AHEAD];

		for (uint32_t a = 0; a < AHEAD; a++) {
			vx[a] = wx[i + a * step];
			if (Op::two)
				vy[a] = wy[i + a * step];
		}
		for (uint32_t a = 0; a < AHEAD; a++)
			for (uint32_t k = 0; k < each; k++)
				all[a] = op.with(all[a], vx[a].at[k],
						 Op::two ? vy[a].at[k] : vx[a].at[k]);
	}
	for (; i < nr; i += step) {
		wide<item> vx = wx[i], vy = Op::two ? wy[i] : vx;

		for (uint32_t k = 0; k < each; k++)
			all[0] = op.with(all[0], vx.at[k], vy.at[k]);
	}
	all[1] = one_by_one(op, all[1], x, y, me, head, step);
	all[2] = one_by_one(op, all[2], x, y, head + nr * each + me, n, step);
	return op.put(op.put(all[0], all[1]), op.put(all[2], all[3]));
}

/* Of all threads of a block, for the first one. */
template <class Op>
static __device__ inline typename Op::number
of_block(const Op &op, typename Op::number mine, typename Op::number *parts)
{
	return put_together(parts, mine, [op](typename Op::number a, typename Op::number b) {
		return op.put(a, b);
	});
}

template <class Op>
static __device__ inline void part_of(const Op &op, const typename Op::item *x,
				      const typename Op::item *y, typename Op::number *part,
				      uint32_t n, typename Op::number *room)
{
	typename Op::number all = share_of(op, x, y, n, arax_group() * threads() + thread(),
					   arax_groups() * threads());

	all = of_block(op, all, room);
	if (!thread())
		part[arax_group()] = all;
}

PASS_KERNEL arax_pass_sum_f32(const float *x, double *part, uint32_t n, arax_gpu_result result)
{
	__shared__ double room[PASS_THREADS];

	if (result.canceled())
		return;
	part_of(sum_of<float>(), x, x, part, n, room);
}

PASS_KERNEL arax_pass_sum_f64(const double *x, double *part, uint32_t n, arax_gpu_result result)
{
	__shared__ double room[PASS_THREADS];

	if (result.canceled())
		return;
	part_of(sum_of<double>(), x, x, part, n, room);
}

PASS_KERNEL arax_pass_dot_f32(const float *x, const float *y, double *part, uint32_t n,
			      arax_gpu_result result)
{
	__shared__ double room[PASS_THREADS];

	if (result.canceled())
		return;
	part_of(sum_of_products(), x, y, part, n, room);
}

PASS_KERNEL arax_pass_sum_diff(const float *x, const float *y, double *part, uint32_t n,
			       arax_gpu_result result)
{
	__shared__ double room[PASS_THREADS];

	if (result.canceled())
		return;
	part_of(sum_of_differences(), x, y, part, n, room);
}

PASS_KERNEL arax_pass_greatest(const float *x, float *part, uint32_t n, float sign,
			       arax_gpu_result result)
{
	__shared__ float room[PASS_THREADS];

	if (result.canceled())
		return;
	part_of(greatest{ sign }, x, x, part, n, room);
}

/* By one block.  @add: to what is in *@to. */
PASS_KERNEL arax_pass_sum_parts(const double *part, double *to, uint32_t parts, uint32_t add,
				arax_gpu_result result)
{
	__shared__ double room[PASS_THREADS];
	double all;

	if (result.canceled())
		return;
	all = of_block(sum_of<double>(),
		       share_of(sum_of<double>(), part, part, parts, thread(), threads()), room);
	if (!thread())
		*to = add ? *to + all : all;
}

PASS_KERNEL arax_pass_greatest_parts(const float *part, float *to, uint32_t parts, float sign,
				     arax_gpu_result result)
{
	__shared__ float room[PASS_THREADS];
	const greatest op = { 1 };
	float best;

	if (result.canceled())
		return;
	best = of_block(op, share_of(op, part, part, parts, thread(), threads()), room);
	if (!thread())
		*to = sign * best;
}
