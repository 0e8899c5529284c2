/* SPDX-License-Identifier: MIT */
/*
 * driver.h - what the GPU backend needs of a vendor's driver
 *
 * Two fill it in: cuda.c (NVIDIA's libcuda.so.1) and hip.c (AMD's libamdhip64).
 * The calls that both have, in all but their names, are written once, in calls.h.
 * Handles are the driver's pointers; addresses are device addresses.
 *
 * Calls return 0 or the driver's own error, for error_name() and error_code().  Those
 * between context_use() and memory_map() act on the context that is current.
 */
#ifndef ARAX_DAEMON_BACKENDS_GPU_DRIVER_H
#define ARAX_DAEMON_BACKENDS_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a device is and allows. */
struct gpu_limits {
	char name[128];
	char arch[64];		/* for whom code is compiled: "8.0", "gfx90a" */
	uint64_t bytes;
	uint32_t units;
	uint32_t max_group;	/* threads of a block */
	uint32_t max_block[3], max_grid[3];
	uint64_t max_threads;	/* of all blocks in one dimension; 0: no limit of its own */
	bool pools;		/* memory pools: alloc() and free() don't stop the device */
	bool places;		/* memory_map() can be asked for an address */
};

/* Where an error leaves the context. */
enum gpu_harm {
	GPU_HARM_NONE,		/* only the call failed */
	GPU_HARM_KERNEL,	/* broken, by a kernel: every call fails from now on */
	GPU_HARM_DEVICE,	/* broken, by the device or its driver */
	GPU_HARM_UNKNOWN,	/* an error that we don't know: the next call tells */
};

/* What a function takes of the device. */
struct gpu_cost {
	uint32_t registers;	/* of a thread */
	uint32_t shared, local;	/* bytes of a block, of a thread */
	uint32_t max_group;
	uint32_t blocks;	/* of 256 threads that a unit runs at once; 0: not known */
};

struct gpu_driver {
	const char *name;		/* of the backend */
	uint32_t kind;			/* ARAX_DEVICE_* */
	const char *images;		/* what module_load() takes, for messages */
	const char *remedy;		/* for a file that it doesn't take */
	bool nvml;			/* which knows such devices */

	/*
	 * @library NULL: the one that the machine has.  -ENOENT, -ENOEXEC, -ENODEV: @why says
	 * what to do.  Once is enough; it stays for as long as the process.
	 */
	int (*open)(const char *library, char *why, size_t len);
	void *(*library)(void);		/* what dlopen() gave for it; NULL: it is linked */
	const char *(*error_name)(int err);
	int (*error_code)(int err);	/* a negative errno */
	enum gpu_harm (*harm)(int err);
	bool (*not_ready)(int err);	/* what event_query() and stream_query() say */
	bool (*is_image)(const void *data, size_t bytes);

	int (*count)(int *nr);
	int (*describe)(int index, struct gpu_limits *limits);
	/* Its PCI address, as NVML knows it, too. */
	int (*bus_id)(int index, char *text, int len);
	/* What tells it from all others; zeros: not known. */
	void (*uuid)(int index, uint8_t uuid[16]);
	/* @index becomes usable; @context NULL where a device is its own context. */
	int (*context_create)(int index, void **context);
	void (*context_destroy)(int index, void *context);

	int (*context_use)(int index, void *context);	/* on this thread */
	int (*memory_info)(uint64_t *free, uint64_t *total);
	/* From the other device's context, too; and from its pool, which has rules of its own. */
	int (*peer_enable)(int index, int other, void *other_context, bool pooled);

	int (*stream_create)(void **stream);
	void (*stream_destroy)(void *stream);
	int (*stream_wait)(void *stream);
	int (*stream_query)(void *stream);
	/*
	 * Once all that @stream has is done, and what it wrote is seen: @value at @address, of
	 * host_alloc().  NULL: can't.
	 */
	int (*mark)(void *stream, uint64_t address, uint32_t value);
	/* One that is not @timed costs a tenth to record, and is seen sooner. */
	int (*event_create)(bool timed, void **event);
	void (*event_destroy)(void *event);
	int (*event_record)(void *event, void *stream);
	int (*event_query)(void *event);
	int (*event_ns)(void *from, void *to, uint64_t *ns);

	/* @pooled: as limits.pools allows; the caller waits for @stream before the first use. */
	int (*alloc)(bool pooled, void *stream, uint64_t bytes, uint64_t *address);
	int (*free)(bool pooled, void *stream, uint64_t address);
	int (*pool_keep)(int index);	/* freed memory stays in the pool */
	/* Host memory that the device sees at *@address. */
	int (*host_alloc)(uint64_t bytes, void **host, uint64_t *address);
	void (*host_free)(void *host);
	/* -EALREADY as error_code(): somebody did it. */
	int (*host_register)(void *host, uint64_t bytes);
	int (*host_unregister)(void *host);
	int (*copy_in)(uint64_t to, const void *from, uint64_t bytes, void *stream);
	int (*copy_out)(void *to, uint64_t from, uint64_t bytes, void *stream);
	int (*copy_peer)(uint64_t to, int index, void *context, uint64_t from, int src_index,
			 void *src_context, uint64_t bytes, void *stream);

	/* @log of @len bytes: what the compiler had to say. */
	int (*module_load)(const void *image, char *log, size_t len, void **module);
	void (*module_unload)(void *module);
	int (*function_get)(void *module, const char *symbol, void **function);
	int (*function_cost)(void *function, struct gpu_cost *cost);
	/*
	 * Bytes of parameter @i, 0 behind the last one; NULL, or -EOPNOTSUPP in *@bytes: the
	 * driver doesn't tell.
	 */
	void (*function_param)(void *function, uint32_t i, int *bytes);
	int (*launch)(void *function, const uint32_t grid[3], const uint32_t block[3],
		      void *stream, void **params);

	/* Memory at an address of the caller's choice; NULL: there is none. */
	int (*map_granule)(int index, uint64_t *bytes);
	int (*memory_map)(int index, uint64_t address, uint64_t bytes, uint64_t *at,
			  uint64_t *handle);
	void (*memory_unmap)(uint64_t address, uint64_t bytes, uint64_t handle);
};

extern const struct gpu_driver gpu_cuda, gpu_hip;

#endif /* ARAX_DAEMON_BACKENDS_GPU_DRIVER_H */
