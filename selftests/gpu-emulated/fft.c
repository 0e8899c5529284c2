// SPDX-License-Identifier: MIT
/*
 * A vendor's Fourier transforms in software, on streams of the driver in software (emulated, not
 * hardware): once as cuFFT (EMULATED_CUDA) and once as hipFFT.  See blas.c.
 */
#include <complex.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef EMULATED_CUDA
#include <cufft.h>
#define FFT(name)	cufft##name
#define RESULT		cufftResult
#define STREAM		cudaStream_t
#define COMPLEX		cufftComplex
#define TYPE		cufftType
#define C2C		CUFFT_C2C
#define FORWARD		CUFFT_FORWARD
#define OK		CUFFT_SUCCESS
#define INVALID		CUFFT_INVALID_VALUE
#define FAILED		CUFFT_EXEC_FAILED
#else
#include "daemon/kernels/std/hipfft_api.h"
#define FFT(name)	hipfft##name
#define RESULT		int
#define STREAM		void *
#define COMPLEX		void
#define TYPE		int
#define C2C		HIPFFT_C2C
#define FORWARD		HIPFFT_FORWARD
#define OK		0
#define INVALID		4
#define FAILED		6
#endif

/* Of the driver in software. */
#ifdef EMULATED_CUDA
int cuMemAlloc_v2(unsigned long long *address, size_t bytes);
int cuMemFree_v2(unsigned long long address);
#else
int hipMalloc(void **address, size_t bytes);
int hipFree(void *address);
#endif

#include "selftests/gpu-emulated/emulated.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define EXPORT __attribute__((visibility("default")))

#define MAX_PLANS	1024
#define MAX_PRIME	1000	/* beyond it there is no plan */
#define ONE_PASS	64	/* numbers: more of them need memory to work in, as much as the data */

struct plan {
	bool used, allocates;
	void *stream;
	int n, batch;
	uint64_t work_bytes, area;
};

struct job {
	int n, batch;
	bool inverse;
	uint64_t in, out, area, area_bytes;
};

static struct plan plans[MAX_PLANS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A handle is never 0, which would be no pointer. */
static struct plan *plan_of(FFT(Handle) handle)
{
	uint64_t i = (uint64_t)handle;

	return i - 1 < MAX_PLANS && plans[i - 1].used ? &plans[i - 1] : NULL;
}

/* What a plan does that nobody tells not to. */
static int allocate(struct plan *p, size_t bytes)
{
#ifdef EMULATED_CUDA
	unsigned long long address = 0;
	int err = (int)cuMemAlloc_v2(&address, bytes);
#else
	void *address = NULL;
	int err = hipMalloc(&address, bytes);
#endif

	p->area = (uint64_t)(uintptr_t)address;
	return err;
}

static void release(struct plan *p)
{
	if (!p->area)
		return;
#ifdef EMULATED_CUDA
	cuMemFree_v2(p->area);
#else
	hipFree((void *)(uintptr_t)p->area);
#endif
	p->area = 0;
}

static int least_factor(int n)
{
	for (int p = 2; p * p <= n; p++)
		if (n % p == 0)
			return p;
	return n;
}

/* @n numbers, @step apart, of @x to @y; @way is 1 or -1. */
static void transform(const float *x, size_t step, double complex *y, int n, int way)
{
	int p = least_factor(n), m = n / p;
	double complex *sub;

	if (n == 1) {
		*y = (double)x[0] + I * (double)x[1];
		return;
	}
	sub = malloc((size_t)n * sizeof(*sub));
	for (int r = 0; r < p; r++)
		transform(x + 2 * step * (size_t)r, step * (size_t)p, sub + (size_t)r * (size_t)m, m, way);
	for (int k = 0; k < n; k++) {
		y[k] = 0;
		for (int r = 0; r < p; r++)
			y[k] += sub[r * m + k % m] *
				cexp(way * 2 * M_PI * I * ((double)((int64_t)r * k % n) / n));
	}
	free(sub);
}

/* As the libraries', which load a complex number at once, it can't begin in the middle of one. */
static bool work(void *arg)
{
	const struct job *j = arg;
	const uint64_t items = (uint64_t)j->n * (uint64_t)j->batch;
	float *in = emulated_memory(j->in, items * 2 * sizeof(float));
	float *out = emulated_memory(j->out, items * 2 * sizeof(float));
	void *area = emulated_memory(j->area, j->area_bytes);
	double complex *y;

	if ((j->in | j->out) % (2 * sizeof(float)))
		return false;
	/* It leaves nothing there that somebody else could use. */
	if (j->area_bytes) {
		if (!area)
			return false;
		memset(area, 0xa5, j->area_bytes);
	}
	y = malloc((size_t)j->n * sizeof(*y));
	for (int i = 0; in && out && i < j->batch; i++) {
		size_t at = 2 * (size_t)i * (size_t)j->n;

		transform(in + at, 1, y, j->n, j->inverse ? 1 : -1);
		for (int k = 0; k < j->n; k++) {
			out[at + 2 * (size_t)k] = (float)creal(y[k]);
			out[at + 2 * (size_t)k + 1] = (float)cimag(y[k]);
		}
	}
	free(y);
	return in && out;
}

EXPORT RESULT FFT(Create)(FFT(Handle) *handle)
{
	uint64_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < MAX_PLANS && plans[i].used)
		i++;
	if (i < MAX_PLANS)
		plans[i] = (struct plan){ .used = true, .allocates = true };
	pthread_mutex_unlock(&lock);
	*handle = (FFT(Handle))(i + 1);
	return i < MAX_PLANS ? OK : FAILED;
}

EXPORT RESULT FFT(Destroy)(FFT(Handle) handle)
{
	struct plan *p = plan_of(handle);

	if (!p)
		abort();
	if (p->allocates)
		release(p);
	pthread_mutex_lock(&lock);
	p->used = false;
	pthread_mutex_unlock(&lock);
	return OK;
}

EXPORT RESULT FFT(SetStream)(FFT(Handle) handle, STREAM stream)
{
	struct plan *p = plan_of(handle);

	if (!p)
		return INVALID;
	p->stream = stream;
	return OK;
}

EXPORT RESULT FFT(SetAutoAllocation)(FFT(Handle) handle, int allocates)
{
	struct plan *p = plan_of(handle);

	if (!p || p->n)
		return INVALID;
	p->allocates = allocates;
	return OK;
}

EXPORT RESULT FFT(SetWorkArea)(FFT(Handle) handle, void *area)
{
	struct plan *p = plan_of(handle);

	if (!p || !p->n)
		return INVALID;
	if (p->allocates)
		release(p);
	p->allocates = false;
	p->area = (uint64_t)(uintptr_t)area;
	return OK;
}

/* Of memory to work in. */
static size_t bytes_of_number(void)
{
	const char *bytes = getenv("EMULATED_FFT_WORK");

	return bytes ? strtoul(bytes, NULL, 10) : 2 * sizeof(float);
}

EXPORT RESULT FFT(MakePlanMany)(FFT(Handle) handle, int rank, int *n, int *inembed, int istride,
				int idist, int *onembed, int ostride, int odist, TYPE type,
				int batch, size_t *work_bytes)
{
	struct plan *p = plan_of(handle);
	int rest;

	if (!p || rank != 1 || *n < 1 || inembed || onembed || istride != 1 || ostride != 1 ||
	    idist != *n || odist != *n || type != C2C || batch < 1)
		return INVALID;
	for (rest = *n; rest > 1; rest /= least_factor(rest))
		if (least_factor(rest) > MAX_PRIME)
			return INVALID;
	*work_bytes = *n > ONE_PASS ? (size_t)*n * (size_t)batch * bytes_of_number() : 0;
	if (*work_bytes && p->allocates && allocate(p, *work_bytes))
		return FAILED;
	p->n = *n;
	p->batch = batch;
	p->work_bytes = *work_bytes;
	return OK;
}

EXPORT RESULT FFT(ExecC2C)(FFT(Handle) handle, COMPLEX *in, COMPLEX *out, int direction)
{
	const struct plan *p = plan_of(handle);
	struct job *j;

	if (!p || !p->stream || !p->n || (p->work_bytes && !p->area))
		return INVALID;
	j = malloc(sizeof(*j));
	*j = (struct job){ p->n, p->batch, direction != FORWARD, (uint64_t)(uintptr_t)in,
			   (uint64_t)(uintptr_t)out, p->area, p->work_bytes };
	return emulated_push(p->stream, work, j) ? OK : FAILED;
}
