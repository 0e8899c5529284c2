/* SPDX-License-Identifier: MIT */
/*
 * hipfft_api.h - what is called of hipFFT
 *
 * As <hipfft/hipfft.h> has it in ROCm 5 to 6.2, for AMD's devices; Debian 12 has none, and only the
 * library, which is opened at run time, is a vendor's.  What stands there as an enumeration, an
 * int here.
 */
#ifndef ARAX_STD_HIPFFT_API_H
#define ARAX_STD_HIPFFT_API_H

#include <stddef.h>

#define HIPFFT_C2C	0x29
#define HIPFFT_FORWARD	(-1)
#define HIPFFT_BACKWARD	1

/* A plan. */
typedef struct hipfft *hipfftHandle;

int hipfftCreate(hipfftHandle *plan);
int hipfftDestroy(hipfftHandle plan);
int hipfftSetAutoAllocation(hipfftHandle plan, int auto_allocate);
int hipfftSetWorkArea(hipfftHandle plan, void *work);
int hipfftSetStream(hipfftHandle plan, void *stream);
int hipfftMakePlanMany(hipfftHandle plan, int rank, int *n, int *inembed, int istride, int idist,
		       int *onembed, int ostride, int odist, int type, int batch,
		       size_t *work_bytes);
int hipfftExecC2C(hipfftHandle plan, void *in, void *out, int direction);

#endif /* ARAX_STD_HIPFFT_API_H */
