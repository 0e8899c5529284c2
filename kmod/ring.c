// SPDX-License-Identifier: GPL-2.0
/*
 * A context's region: pages like a buffer's, and mapped in the kernel too.
 * The page references last as long as the kernel's mapping, so nobody can take
 * the pages from under it; the client's mapping may last longer.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "module.h"

struct arax_ring {
	void *address;		/* what client->region was */
	unsigned long nr;
	struct page *pages[];
};

int arax_ring_alloc(struct core_client *c, struct arax_context_init *init, u32 bytes)
{
	unsigned long nr = PAGE_ALIGN(bytes) >> PAGE_SHIFT;
	struct arax_ring *ring;
	int err;

	if (init->ring_fd != -1 || init->wake_fd != -1)
		return -EINVAL;
	ring = core_alloc(struct_size(ring, pages, nr));
	if (!ring)
		return -ENOMEM;
	ring->nr = nr;
	err = arax_buffer_alloc(c->ring_buf, "arax-ring", ring->pages);
	if (err)
		goto free;
	ring->address = vmap(ring->pages, nr, VM_MAP, PAGE_KERNEL);
	if (!ring->address) {
		err = -ENOMEM;
		goto discard;
	}
	/* Last: from here on another thread of the client's may map it. */
	err = arax_client_map_add(c->link, 0, c->ring_buf->link, true);
	if (err)
		goto unmap;
	c->link_ring = ring;
	c->region = ring->address;
	init->doorbell_fd = -1;
	return 0;
unmap:
	vunmap(ring->address);
discard:
	arax_pages_put(ring->pages, nr);
	arax_buffer_discard(c->ring_buf);
free:
	kvfree(ring);
	return err;
}

void arax_ring_free(struct core_client *c)
{
	struct arax_ring *ring = c->link_ring;

	vunmap(ring->address);
	c->link_ring = NULL;
	arax_pages_put(ring->pages, ring->nr);
	kvfree(ring);
	arax_client_map_remove(c->link, 0);
}
