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

/*
 * The launch's share of it by oneDNN, on this thread alone.  False: that is not here, not fit
 * for this, or failed, and nothing can be said of what is in the share of y.
 */
bool std_conv2d_dnn(const struct arax_launch *l, const struct conv2d *c);

#endif /* ARAX_STD_CONV2D_H */
