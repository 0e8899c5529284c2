// SPDX-License-Identifier: MIT
/*
 * Any launch of any kernel of arax-std, or, built with its manifest, of arax-blas: no argument,
 * no length and no contents lead outside of the ranges, also while another thread, as a client
 * can, writes to them all the time.
 *
 * Which kernels there are and what they take is read from the manifest.  The first byte
 * chooses one; the second how many work-groups, and whether ranges end where a page does with
 * nothing behind it: what a vendor's library does no sanitizer sees, but a fault; and whether they
 * overlap, where araxd would let them.  Then come the arguments and the lengths of the ranges.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "arax/kernel.h"
#include "daemon/kernels/manifest.h"
#include "uapi/arax.h"

#ifndef MANIFEST
#define MANIFEST	"daemon/kernels/std/arax-std.json"
#endif
#define ROOMY		(64u << 10)	/* enough for most small arguments */
#define PAGE		4096u
#define REPEATS		4		/* of a launch: so that the writer comes in between */

const char *__asan_default_options(void);
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct manifest manifest;

/* The ranges of the launch at hand; the writer keeps the lock for a while at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct arax_launch_range ranges[ARAX_MAX_RANGES];
static uint32_t nr_ranges;

/*
 * glibc's record of a thread's storage is what leads the leak checker to a vendor's library's, not
 * the sanitizer's own of what __tls_get_addr() returned: that one takes a block that happens to
 * begin 16 bytes behind a page's beginning for one of an old glibc's, reads its size and place from
 * what lies before it, and "Tracer caught signal 11" at the end of one run in some forty.
 */
const char *__asan_default_options(void)
{
	return "intercept_tls_get_addr=0";
}

static void *scribble(void *unused)
{
	uint64_t x = 88172645463325252u;

	for (;;) {
		pthread_mutex_lock(&lock);
		for (int i = 0; i < 1000 && nr_ranges; i++) {
			const struct arax_launch_range *r;
			uint64_t at;

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			r = &ranges[x % nr_ranges];
			if (r->length < 4)
				continue;
			at = (x >> 8) % (r->length / 4);
			((volatile uint32_t *)r->data)[at] = (uint32_t)(x >> 32) >> (x >> 4 & 31);
		}
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char *text = calloc(1, MANIFEST_MAX_BYTES), error[256];
	FILE *f = fopen(MANIFEST, "r");
	pthread_t thread;

	if (!f || !text || !fread(text, 1, MANIFEST_MAX_BYTES - 1, f) ||
	    manifest_parse(&manifest, text, strlen(text), error, sizeof(error)) ||
	    pthread_create(&thread, NULL, scribble, NULL))
		abort();
	fclose(f);
	free(text);
	return 0;
}

/* libFuzzer's clock ticks while kernels run that have no place for it but this, see arax/kernel.h. */
static void move_ticks(void)
{
	static bool moved;
	struct sigaction sa;

	if (moved || sigaction(SIGALRM, NULL, &sa))
		return;
	sa.sa_flags |= SA_ONSTACK;
	moved = !sigaction(SIGALRM, &sa, NULL);
}

struct input {
	const uint8_t *data;
	size_t size;
};

static uint8_t next(struct input *in)
{
	if (!in->size)
		return 0;
	in->size--;
	return *in->data++;
}

/* Small as a rule. */
static uint32_t next_u32(struct input *in)
{
	static const uint32_t edges[] = { 0xffffffff, 0x80000000, 0x40000000, 65536, 65535, 256 };
	uint8_t b = next(in);

	if (b < 200)
		return b % 33;
	if (b < 240)
		return (uint32_t)next(in) << 8 | next(in);
	return edges[b % 6];
}

static void next_argument(struct input *in, void *to, const char *type)
{
	static const double numbers[] = { 0, 1, -1, 0.5, 1e-30, 1e30, __builtin_nan(""),
					  __builtin_inf() };
	double number = numbers[next(in) % 8];
	float single = (float)number;
	uint64_t wide = next(in);
	uint32_t word;

	if (!strncmp(type, "f64", 3)) {
		memcpy(to, &number, 8);
	} else if (!strncmp(type, "f32", 3)) {
		memcpy(to, &single, 4);
	} else if (!strncmp(type, "u64", 3)) {
		memcpy(to, &wide, 8);
	} else {
		word = next_u32(in);
		memcpy(to, &word, 4);
	}
}

static void make_arguments(struct input *in, const char *text, char *args)
{
	uint32_t offset = 0;

	for (const char *p = strchr(text, '('); p; p = strchr(p + 1, ',')) {
		const char *type = p + (*p == '(' ? 1 : 2);
		uint32_t size = strncmp(type + 1, "64 ", 3) ? 4 : 8;

		if (!strncmp(type, "in", 2) || !strncmp(type, "out", 3))
			continue;
		offset = (offset + size - 1) / size * size;
		next_argument(in, args + offset, type);
		offset += size;
	}
}

static size_t whole_pages(uint64_t bytes)
{
	return (size_t)(bytes + PAGE - 1) / PAGE * PAGE;
}

static void *end_at_page(uint64_t bytes)
{
	size_t whole = whole_pages(bytes);
	char *p = mmap(NULL, whole + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED || mprotect(p + whole, PAGE, PROT_NONE))
		abort();
	return p + whole - bytes;
}

static void free_range(const struct arax_launch_range *r, bool paged)
{
	size_t whole = whole_pages(r->length);

	if (!paged)
		free(r->data);
	else
		munmap((char *)r->data + r->length - whole, whole + PAGE);
}

/* Exactly as long as is said, for the sanitizer to see the end of. */
static void make_range(struct input *in, struct arax_launch_range *r, bool paged)
{
	uint8_t b = next(in);

	r->length = b < 160 ? ROOMY : b < 250 ? 4ull * (b - 160) : b - 250ull;
	r->stride = 0;
	r->count = 1;
	r->data = paged ? end_at_page(r->length) : malloc(r->length);
	if (!r->data)
		abort();
	/* Numbers that kernels meet: small integers, and floats around 1. */
	for (uint64_t i = 0; i + 4 <= r->length; i += 4) {
		uint32_t word = b & 1 ? (uint32_t)(i / 4 % 17) :
					0x3f800000 ^ (uint32_t)(i * 0x9e3779b1u) >> 4;

		memcpy((char *)r->data + i, &word, 4);
	}
}

/* From anywhere on to the end of @all, that all of them share; now and then with rows, or off its type. */
static void cut_range(struct input *in, struct arax_launch_range *r,
		      const struct arax_launch_range *all)
{
	uint8_t b = next(in);
	uint64_t from = b < 8 ? b : b < 128 ? 4ull * (b - 8) : b < 248 ? ROOMY / 128 * (b - 120) :
					      ROOMY - (b - 248);

	*r = *all;
	r->data = (char *)all->data + from;
	r->length -= from;
	if (b == 255) {
		r->stride = 4;
		r->count = 2;
		r->length -= r->stride;
	}
}

static void hand_over(uint32_t n)
{
	pthread_mutex_lock(&lock);
	nr_ranges = n;
	pthread_mutex_unlock(&lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	const struct manifest_kernel *k = &manifest.kernels[next(&in) % manifest.nr_kernels];
	uint8_t how = next(&in);
	uint32_t n = k->sig.abi.nr_ranges, groups = 1 + how % 4;
	bool paged = how & 0x40, shared = how & 0x80 && !k->apart;
	struct arax_launch_range all;
	uint64_t args[16] = { 0 };
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = n, .grid = { groups, 1, 1 }, .block = { 1, 1, 1 },
		.ranges = ranges, .args = args, .arg_len = k->sig.abi.arg_len,
	};
	arax_kernel_fn *fn = (arax_kernel_fn *)dlsym(RTLD_DEFAULT, k->impls[0].symbol);

	if (!fn || l.arg_len > sizeof(args))
		abort();
	move_ticks();
	if (!strcmp(k->sig.name, "spin"))	/* it only takes time */
		return 0;
	make_arguments(&in, k->sig.text, (char *)args);
	if (shared)
		make_range(&(struct input){ NULL, 0 }, &all, paged);
	for (uint32_t i = 0; i < n; i++) {
		if (shared)
			cut_range(&in, &ranges[i], &all);
		else
			make_range(&in, &ranges[i], paged);
	}
	hand_over(n);
	for (uint32_t i = 0; i < REPEATS; i++)
		for (uint32_t g = 0; g < groups; g++) {
			l.group_begin = k->split ? g : 0;
			l.group_end = k->split ? g + 1 : groups;
			if (fn(&l) > 0)
				abort();
		}
	hand_over(0);
	if (shared)
		free_range(&all, paged);
	for (uint32_t i = 0; i < n && !shared; i++)
		free_range(&ranges[i], paged);
	return 0;
}
