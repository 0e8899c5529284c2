// SPDX-License-Identifier: MIT
/* A client in C++: as one would write it in C, the macros included. */
#include <cerrno>
#include <cstdio>

// As many include what is C's.
extern "C" {
#include <arax/arax.h>
}

static int evaluated;

static arax_range once(arax_range r)
{
	evaluated++;
	return r;
}

static int fail(const char *what)
{
	std::fprintf(stderr, "%s: %s\n", what, arax_error_text());
	return 1;
}

int main()
{
	const uint64_t deadline = arax_deadline(60000000000u);
	struct { float a; uint32_t n; } args = { 2, 1000 };
	arax_event e = ARAX_EVENT_INIT;
	arax_buffer *x, *y;
	arax_kernel saxpy;
	arax_queue *q;
	arax *ax;

	if (arax_open(&ax, NULL) || arax_kernel_find(ax, "saxpy", deadline, &saxpy) ||
	    arax_buffer_create(ax, 4 * args.n, 0, &x) ||
	    arax_buffer_create(ax, 4 * args.n, 0, &y) ||
	    arax_queue_create(ax, ARAX_QUEUE_DATAFLOW, 0, &q))
		return fail("to begin");
	float *in = static_cast<float *>(arax_buffer_data(x));
	float *out = static_cast<float *>(arax_buffer_data(y));

	for (uint32_t i = 0; i < args.n; i++) {
		in[i] = i;
		out[i] = 1;
	}
	if (arax_launch(q, &saxpy, arax_grid(4, 1, 1), ARAX_ARGS(args),
			ARAX_RANGES(once(arax_in(x)), once(arax_inout(y))), &e) ||
	    arax_wait(&e, deadline))
		return fail("a launch");
	if (evaluated != 2) {
		std::fprintf(stderr, "ranges were evaluated %d times\n", evaluated);
		return 1;
	}
	for (uint32_t i = 0; i < args.n; i++) {
		if (out[i] != 2 * in[i] + 1) {
			std::fprintf(stderr, "item %u is %g\n", i, static_cast<double>(out[i]));
			return 1;
		}
	}
	if (arax_launch(q, &saxpy, arax_grid(1, 1, 1), ARAX_ARGS(args), ARAX_NO_RANGES, &e) !=
	    -EINVAL)
		return fail("a launch without its ranges");
	arax_close(ax);
	return 0;
}
