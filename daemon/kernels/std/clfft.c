// SPDX-License-Identifier: MIT
/* Fourier transforms by clFFT, for OpenCL devices. */
#define CL_TARGET_OPENCL_VERSION 120
#include <clFFT.h>
#include <pthread.h>

#include "daemon/kernels/std/fft_vendor.h"
#include "daemon/kernels/vendor_library.h"

#define VENDOR_NVIDIA	0x10deu

#define CALLS(X) \
	X(Setup) X(CreateDefaultPlan) X(SetPlanPrecision) X(SetLayout) X(SetResultLocation) \
	X(SetPlanBatchSize) X(SetPlanScale) X(BakePlan) X(GetTmpBufSize) X(EnqueueTransform) \
	X(DestroyPlan) X(Teardown)

/* @plans: of all streams; it is set up as long as there are any, and complains at exit if it still is. */
static struct {
	pthread_mutex_t lock;
	uint32_t plans;
#define X(name) __typeof__(clfft##name) *name;
	CALLS(X)
#undef X
	__typeof__(clCreateBuffer) *create_buffer;
	__typeof__(clReleaseMemObject) *release_buffer;
	__typeof__(clCreateSubBuffer) *create_part;
	__typeof__(clGetMemObjectInfo) *buffer_info;
	__typeof__(clGetDeviceInfo) *device_info;
} fft = { .lock = PTHREAD_MUTEX_INITIALIZER };

int vendor_open(const struct arax_stream *s, char *why, size_t len)
{
	static const char *const names[] = { "libclFFT.so.2", NULL };
	static const struct vendor_call calls[] = {
#define X(name) { "clfft" #name, (void **)&fft.name },
		CALLS(X)
#undef X
		/* Of the libOpenCL that it is linked with. */
		{ "clCreateBuffer", (void **)&fft.create_buffer },
		{ "clReleaseMemObject", (void **)&fft.release_buffer },
		{ "clCreateSubBuffer", (void **)&fft.create_part },
		{ "clGetMemObjectInfo", (void **)&fft.buffer_info },
		{ "clGetDeviceInfo", (void **)&fft.device_info },
		{ NULL, NULL }
	};
	const struct vendor_library v = { names, "no clFFT (Debian: libclfft2)", calls, NULL };
	void *library;

	return vendor_library_open(&v, s, &library, why, len);
}

static bool begin(void)
{
	clfftSetupData setup = { clfftVersionMajor, clfftVersionMinor, clfftVersionPatch, 0 };
	bool ok = true;

	pthread_mutex_lock(&fft.lock);
	if (!fft.plans)
		ok = !fft.Setup(&setup);
	fft.plans += ok;
	pthread_mutex_unlock(&fft.lock);
	return ok;
}

static void end(void)
{
	pthread_mutex_lock(&fft.lock);
	if (!--fft.plans)
		fft.Teardown();
	pthread_mutex_unlock(&fft.lock);
}

/* Nothing of it is seen if it fails: there are others. */
int vendor_plan(const struct arax_stream *s, const struct fft_shape *shape, union fft_plan *plan,
		uint64_t *work_bytes)
{
	size_t n = shape->n, bytes = 0;
	cl_command_queue queue = s->stream;
	clfftPlanHandle h;

	if (!begin())
		return -EOPNOTSUPP;
	if (fft.CreateDefaultPlan(&h, s->context, CLFFT_1D, &n)) {
		end();
		return -EOPNOTSUPP;
	}
	plan->number = h;
	if (!fft.SetPlanPrecision(h, CLFFT_SINGLE) &&
	    !fft.SetLayout(h, CLFFT_COMPLEX_INTERLEAVED, CLFFT_COMPLEX_INTERLEAVED) &&
	    !fft.SetResultLocation(h, CLFFT_OUTOFPLACE) &&
	    !fft.SetPlanBatchSize(h, shape->batch) &&
	    !fft.SetPlanScale(h, CLFFT_FORWARD, 1) && !fft.SetPlanScale(h, CLFFT_BACKWARD, 1) &&
	    !fft.BakePlan(h, 1, &queue, NULL, NULL) && !fft.GetTmpBufSize(h, &bytes)) {
		*work_bytes = bytes;
		return 0;
	}
	fft.DestroyPlan(&h);
	end();
	return -EOPNOTSUPP;
}

void vendor_plan_end(union fft_plan *plan)
{
	clfftPlanHandle h = plan->number;

	fft.DestroyPlan(&h);
	end();
}

void *vendor_work(const struct arax_stream *s, uint64_t bytes)
{
	return fft.create_buffer(s->context, CL_MEM_READ_WRITE, bytes, NULL, NULL);
}

/* Commands that use it hold it. */
void vendor_work_end(const struct arax_stream *s, void *work)
{
	(void)s;
	fft.release_buffer(work);
}

/* A cl_mem begins where the device's buffers can. */
bool vendor_can_at(const void *x, const void *y)
{
	(void)x;
	(void)y;
	return true;
}

/* What @range is of, a buffer, which alone can have parts, and where it begins there. */
static cl_mem whole_of(cl_mem range, size_t *begin)
{
	cl_mem whole = NULL;

	*begin = 0;
	if (fft.buffer_info(range, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(cl_mem), &whole, NULL) || !whole)
		return range;
	return fft.buffer_info(range, CL_MEM_OFFSET, sizeof(*begin), begin, NULL) ? NULL : whole;
}

static bool begins_at(cl_mem range, uint64_t align)
{
	size_t begin;

	return whole_of(range, &begin) && !(begin % align);
}

bool vendor_has_parts(const struct arax_stream *s, void *x, void *y, uint64_t step)
{
	cl_uint bits = 0, vendor = 0;

	/* NVIDIA's driver (580) breaks its list of parts where several threads make and end some. */
	if (fft.device_info(s->device, CL_DEVICE_VENDOR_ID, sizeof(vendor), &vendor, NULL) ||
	    vendor == VENDOR_NVIDIA)
		return false;
	if (fft.device_info(s->device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof(bits), &bits, NULL) ||
	    bits < 8)
		return false;
	return !(step % (bits / 8)) && begins_at(x, bits / 8) && begins_at(y, bits / 8);
}

void *vendor_part(void *range, uint64_t offset, uint64_t bytes)
{
	cl_buffer_region part = { 0, bytes };
	cl_mem whole = whole_of(range, &part.origin);

	part.origin += offset;
	return whole ? fft.create_part(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &part, NULL) : NULL;
}

/* Commands that use it hold it. */
void vendor_part_end(void *part)
{
	fft.release_buffer(part);
}

int vendor_transform(const struct arax_stream *s, const union fft_plan *plan, bool inverse, void *x,
		     void *y, void *work)
{
	cl_command_queue queue = s->stream;
	cl_mem in = x, out = y;
	clfftStatus status = fft.EnqueueTransform(plan->number,
						  inverse ? CLFFT_BACKWARD : CLFFT_FORWARD, 1,
						  &queue, 0, NULL, NULL, &in, &out, work);

	return status == CLFFT_MEM_OBJECT_ALLOCATION_FAILURE ? -ENOMEM : status ? -EIO : 0;
}
