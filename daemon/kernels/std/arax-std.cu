// SPDX-License-Identifier: MIT
/* All GPU kernels of arax-std: one file, as a module is loaded whole. */
#include "basic.cu"
#include "vector.cu"
#include "image.cu"
#include "blackscholes.cu"
#include "sparse.cu"
#include "ml.cu"
#include "nn.cu"
