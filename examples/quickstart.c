// SPDX-License-Identifier: MIT
/* Add two vectors on whatever device Arax picks.  Run: arax run build/examples/quickstart */
#include <arax/arax.h>
#include <stdio.h>

#define N	1000000u
#define TRY(call) do { \
	int err_ = (call); \
	if (err_ < 0) { \
		fprintf(stderr, "%s: %s\n", #call, arax_error_text()); \
		return 1; \
	} \
} while (0)

int main(void)
{
	struct arax *ax;
	struct arax_kernel vadd;
	struct arax_queue *queue;
	struct arax_buffer *a, *b, *sum;
	struct arax_event done = ARAX_EVENT_INIT;
	struct { uint32_t n; } args = { N };

	TRY(arax_open(&ax, NULL));
	TRY(arax_kernel_find(ax, "vadd", arax_deadline(2000000000), &vadd));
	TRY(arax_buffer_create(ax, N * sizeof(float), 0, &a));
	TRY(arax_buffer_create(ax, N * sizeof(float), 0, &b));
	TRY(arax_buffer_create(ax, N * sizeof(float), 0, &sum));
	TRY(arax_queue_create(ax, ARAX_QUEUE_DATAFLOW, 0, &queue));

	for (uint32_t i = 0; i < N; i++) {
		((float *)arax_buffer_data(a))[i] = i;
		((float *)arax_buffer_data(b))[i] = 2 * i;
	}
	TRY(arax_launch(queue, &vadd, arax_grid(64, 1, 1), ARAX_ARGS(args),
			ARAX_RANGES(arax_in(a), arax_in(b), arax_out(sum)), &done));
	TRY(arax_wait(&done, ARAX_DEADLINE_NONE));

	printf("sum[%u] = %.0f, computed by device %u in %.3f ms\n", N - 1,
	       ((float *)arax_buffer_data(sum))[N - 1], done.device, done.device_ns / 1e6);
	arax_close(ax);
	return 0;
}
