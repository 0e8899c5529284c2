// SPDX-License-Identifier: MIT
/* All GPU kernels of arax-blas: one file, as a module is loaded whole. */
#include "blas.cu"
#include "triangle.cu"
