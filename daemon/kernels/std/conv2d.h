/* SPDX-License-Identifier: MIT */
/* conv2d.h - conv2d_f32 with its arguments checked, and who computes it */
#ifndef ARAX_STD_CONV2D_H
#define ARAX_STD_CONV2D_H

#include "daemon/kernels/std/std.h"

/*
 * All products of sizes fit, and the ranges hold them: see arax_std_conv2d_f32().  Nothing is
 * 0 but, perhaps, batch and filters.
 */
struct conv2d {
	uint64_t batch, channels, height, width, filters, out_height, out_width;
	uint32_t kernel_h, kernel_w, stride, pad;
	const float *x, *weights, *bias;	/* bias: NULL if there is none */
	float *y;
};

/* Of an image: the rows and filters of the result that are computed at a time. */
struct conv2d_block {
	uint64_t image, row, rows, filter, filters;
};

/* Whether oneDNN is here, and is asked for such a one: the same for all shares of a launch. */
bool std_conv2d_dnn_suits(const struct conv2d *c);

/*
 * The launch's share by oneDNN, on this thread alone: in blocks, of which those that it can't
 * or won't do are done by std_conv2d_block().  -ENOMEM.
 */
int std_conv2d_dnn(const struct arax_launch *l, const struct conv2d *c);

/* A block by the loops of this library.  -ENOMEM. */
int std_conv2d_block(const struct conv2d *c, const struct conv2d_block *b);

#endif /* ARAX_STD_CONV2D_H */
