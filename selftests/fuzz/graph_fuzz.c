// SPDX-License-Identifier: MIT
/* graph_fuzz - the graph beside its model, driven by the fuzzer's bytes */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "selftests/unit/graph_model.h"

struct input {
	const uint8_t *data;
	size_t left;
};

static uint32_t draw(void *arg, uint32_t n)
{
	static uint32_t after;
	struct input *in = arg;

	if (!in->left)		/* the rest only has to end */
		return (after = after * 1103515245u + 12345u) / 65536u % n;
	in->left--;
	return *in->data++ % n;
}

static bool more(void *arg)
{
	return ((struct input *)arg)->left;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct graph_model_params p = {
		.draw = draw, .more = more, .tasks = 200, .inflight = 64,
	};
	struct input in = { data + 2, size - 2 };
	unsigned int bits;

	if (size < 3)
		return 0;
	bits = data[0] | data[1] << 8;
	p.arg = &in;
	p.contexts = 1 + (bits & 3);
	p.queues = 1 + (bits >> 2 & 3);
	p.in_order = bits & 0x10;
	p.strided = bits & 0x20;
	p.barriers = bits & 0x40;
	p.continues = bits & 0x80;
	p.failures = bits & 0x100;
	p.cancels = bits & 0x200;
	p.blocks = bits & 0x400;
	p.deadlines = bits & 0x800;
	p.gone = bits & 0x1000;
	p.follows = bits & 0x2000;
	p.exact_failures = !p.continues || !(p.in_order || p.strided);
	if (graph_model_run(&p))
		abort();
	return 0;
}
