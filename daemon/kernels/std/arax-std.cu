// SPDX-License-Identifier: MIT
/* All GPU kernels of arax-std: one file, as a module is loaded whole. */
#include "basic.cu"
#include "vector.cu"
#undef SHORT
#include "image.cu"
