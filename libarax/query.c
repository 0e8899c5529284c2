// SPDX-License-Identifier: MIT
/* Looking around: devices, kernels, usage. */
#include "internal.h"
#include "nap.h"

#define LONGEST_NAP_NS	50000000	/* a kernel may be waited for for hours */

const char *arax_version(void)
{
	return ARAX_VERSION;
}

int arax_get_info(struct arax *ax, struct arax_info *info)
{
	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	return context_call(ax, "asking for information", ARAX_NR_INFO, info);
}

int arax_get_device(struct arax *ax, uint32_t index, struct arax_device *device)
{
	memset(device, 0, sizeof(*device));
	device->size = sizeof(*device);
	device->index = index;
	return context_call(ax, "asking about a device", ARAX_NR_DEVICE_QUERY, device);
}

int arax_get_usage(struct arax *ax, uint32_t scope, struct arax_usage *usage)
{
	memset(usage, 0, sizeof(*usage));
	usage->size = sizeof(*usage);
	usage->scope = scope;
	return context_call(ax, "asking for usage", ARAX_NR_USAGE_QUERY, usage);
}

static int lookup(struct arax *ax, const char *name, uint32_t id, struct arax_kernel *kernel)
{
	struct arax_kernel_lookup a = { .size = sizeof(a), .id = id };
	int ret;

	memcpy(a.name, name, strlen(name));
	ret = ax->link->ops->call(ax->link, ARAX_NR_KERNEL_LOOKUP, &a);
	if (ret)
		return ret;
	memset(kernel, 0, sizeof(*kernel));
	kernel->id = a.id;
	kernel->kinds = a.kinds;
	kernel->sig = a.sig;
	memcpy(kernel->name, a.name, sizeof(kernel->name) - 1);
	memcpy(kernel->text, a.text, sizeof(kernel->text) - 1);
	return 0;
}

int kernel_by_id(struct arax *ax, uint32_t id, struct arax_kernel *kernel)
{
	return lookup(ax, "", id, kernel);
}

int arax_kernel_find(struct arax *ax, const char *name, uint64_t deadline,
		     struct arax_kernel *kernel)
{
	struct timespec pause = NAP_FIRST;
	uint64_t now;
	int ret;

	if (!is_owner(ax))
		return not_owner();
	if (!*name || strlen(name) >= ARAX_NAME_LEN)
		return error_set(-EINVAL, "kernel \"%s\": a name has 1 to %d bytes", name,
				 ARAX_NAME_LEN - 1);
	for (;;) {
		ret = lookup(ax, name, 0, kernel);
		if (ret != -ENOENT && ret != -ENOTCONN)
			break;
		if (ret == -ENOTCONN && ax->link->type == ARAX_LINK_BROKER)
			break;
		now = now_ns();
		if (now >= deadline)
			break;
		/* Kernels appear when a daemon starts or reads its folders again. */
		if (deadline - now < (uint64_t)pause.tv_nsec)
			pause.tv_nsec = (long)(deadline - now);
		nap_up_to(&pause, LONGEST_NAP_NS);
	}
	return ret ? error_set(ret, "kernel %s (`arax kernels` lists what there is)", name) : 0;
}

int arax_kernel_next(struct arax *ax, uint32_t id, struct arax_kernel *kernel)
{
	int ret;

	if (!is_owner(ax))
		return not_owner();
	ret = lookup(ax, "", id, kernel);
	return ret ? error_set(ret, "a kernel with an id of at least %u", id) : 0;
}
