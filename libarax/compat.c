// SPDX-License-Identifier: MIT
/* What programs of old call in the shared library. */
#include <stddef.h>
#include <string.h>

#include <arax/arax.h>

/* Before devices had figures there was no room for these. */
int get_device_0_1(struct arax *ax, uint32_t index, struct arax_device *device);
__asm__(".symver get_device_0_1, arax_get_device@LIBARAX_0.1");
int get_device_0_1(struct arax *ax, uint32_t index, struct arax_device *device)
{
	const size_t room = offsetof(struct arax_device, known);
	struct arax_device d;
	int ret = arax_get_device(ax, index, &d);

	d.size = (uint32_t)room;
	memcpy(device, &d, room);
	return ret;
}

/* It could not refuse. */
void close_0_1(struct arax *ax);
__asm__(".symver close_0_1, arax_close@LIBARAX_0.1");
void close_0_1(struct arax *ax)
{
	arax_close(ax);
}
