// SPDX-License-Identifier: GPL-2.0
/*
 * dma-bufs for other drivers, of our buffers.
 *
 * An export holds the buffer's file, so it is charged until its last user is
 * gone.  A device's mapping holds the pages besides: a revoke takes them from
 * the buffer, not from below a running transfer.  No fences: commits depend on
 * a process of user space and must not become dma_fences.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "module.h"

#if ARAX_DMABUF

COMPAT_IMPORT_NS(DMA_BUF);

struct export {
	struct file *file;		/* the buffer's pages; reference held */
	struct mutex lock;		/* the rest */
	struct list_head maps;		/* export_map.node */
	struct page **vmap_pages;
};

/* A device's mapping of an export. */
struct export_map {
	struct list_head node;
	struct device *dev;
	struct sg_table table;
	enum dma_data_direction dir;
};

/* All pages of the export with a reference each. */
static struct page **export_pages(struct dma_buf *dmabuf, unsigned long *nr)
{
	struct export *e = dmabuf->priv;
	struct page **pages;
	int err;

	*nr = dmabuf->size >> PAGE_SHIFT;
	pages = kvmalloc_array(*nr, sizeof(*pages), GFP_KERNEL | __GFP_NOWARN);
	if (!pages)
		return ERR_PTR(-ENOMEM);
	err = arax_pages_get(e->file, pages, *nr);
	if (err) {
		kvfree(pages);
		return ERR_PTR(err);
	}
	return pages;
}

static struct sg_table *export_map(struct dma_buf_attachment *at, enum dma_data_direction dir)
{
	struct export *e = at->dmabuf->priv;
	struct export_map *map;
	struct page **pages;
	unsigned long nr;
	int err;

	map = kzalloc(sizeof(*map), GFP_KERNEL);
	if (!map)
		return ERR_PTR(-ENOMEM);
	pages = export_pages(at->dmabuf, &nr);
	if (IS_ERR(pages)) {
		err = PTR_ERR(pages);
		goto free;
	}
	/* Neighbours become one piece: what the device is bounced through may not take it whole. */
	err = sg_alloc_table_from_pages_segment(&map->table, pages, nr, 0, at->dmabuf->size,
						min_t(size_t, dma_max_mapping_size(at->dev),
						      UINT_MAX), GFP_KERNEL);
	if (err)
		goto put;
	err = dma_map_sgtable(at->dev, &map->table, dir, 0);
	if (err)
		goto free_table;
	/* The table's entries hold the references from here on. */
	kvfree(pages);
	map->dev = at->dev;
	map->dir = dir;
	mutex_lock(&e->lock);
	list_add(&map->node, &e->maps);
	mutex_unlock(&e->lock);
	return &map->table;
free_table:
	sg_free_table(&map->table);
put:
	arax_pages_put(pages, nr);
	kvfree(pages);
free:
	kfree(map);
	return ERR_PTR(err);
}

static void export_unmap(struct dma_buf_attachment *at, struct sg_table *table,
			 enum dma_data_direction dir)
{
	struct export_map *map = container_of(table, struct export_map, table);
	struct export *e = at->dmabuf->priv;
	struct sg_page_iter iter;

	mutex_lock(&e->lock);
	list_del(&map->node);
	mutex_unlock(&e->lock);
	dma_unmap_sgtable(at->dev, table, dir, 0);
	for_each_sgtable_page(table, &iter, 0)
		put_page(sg_page_iter_page(&iter));
	sg_free_table(table);
	kfree(map);
}

static int export_begin_cpu(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	struct export *e = dmabuf->priv;
	struct export_map *map;

	mutex_lock(&e->lock);
	list_for_each_entry(map, &e->maps, node)
		dma_sync_sgtable_for_cpu(map->dev, &map->table, map->dir);
	mutex_unlock(&e->lock);
	return 0;
}

static int export_end_cpu(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	struct export *e = dmabuf->priv;
	struct export_map *map;

	mutex_lock(&e->lock);
	list_for_each_entry(map, &e->maps, node)
		dma_sync_sgtable_for_device(map->dev, &map->table, map->dir);
	mutex_unlock(&e->lock);
	return 0;
}

/* The core of dma-buf has checked the range. */
static int export_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct export *e = dmabuf->priv;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vma_set_file(vma, e->file);
	return compat_mmap_file(e->file, vma);
}

/* One page in place of each. */
static struct page **pages_of_nobody(unsigned long nr)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO), **pages;
	unsigned long i;

	pages = kvmalloc_array(nr, sizeof(*pages), GFP_KERNEL | __GFP_NOWARN);
	if (!page || !pages) {
		if (page)
			put_page(page);
		kvfree(pages);
		return ERR_PTR(-ENOMEM);
	}
	for (i = 0; i < nr; i++) {
		get_page(page);
		pages[i] = page;
	}
	put_page(page);
	return pages;
}

/*
 * Called for the first of several vmaps, vunmap after the last.  The core warns of a vmap that
 * fails, and whose buffer was revoked is not ours to choose.
 */
static int export_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct export *e = dmabuf->priv;
	struct page **pages;
	unsigned long nr;
	void *address;

	pages = export_pages(dmabuf, &nr);
	if (pages == ERR_PTR(-ESTALE))
		pages = pages_of_nobody(nr);
	if (IS_ERR(pages))
		return PTR_ERR(pages);
	address = vmap(pages, nr, VM_MAP, PAGE_KERNEL);
	if (!address) {
		arax_pages_put(pages, nr);
		kvfree(pages);
		return -ENOMEM;
	}
	e->vmap_pages = pages;
	iosys_map_set_vaddr(map, address);
	return 0;
}

static void export_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct export *e = dmabuf->priv;

	vunmap(map->vaddr);
	arax_pages_put(e->vmap_pages, dmabuf->size >> PAGE_SHIFT);
	kvfree(e->vmap_pages);
	e->vmap_pages = NULL;
}

static void export_release(struct dma_buf *dmabuf)
{
	struct export *e = dmabuf->priv;

	WARN_ON(!list_empty(&e->maps) || e->vmap_pages);
	fput(e->file);
	mutex_destroy(&e->lock);
	kfree(e);
}

static const struct dma_buf_ops export_ops = {
	.map_dma_buf		= export_map,
	.unmap_dma_buf		= export_unmap,
	.begin_cpu_access	= export_begin_cpu,
	.end_cpu_access		= export_end_cpu,
	.mmap			= export_mmap,
	.vmap			= export_vmap,
	.vunmap			= export_vunmap,
	.release		= export_release,
};

struct file *arax_dmabuf_export(struct arax_buffer *ab)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;
	struct export *e;
	int err = arax_file_room();

	if (err)
		return ERR_PTR(err);
	e = kzalloc(sizeof(*e), CORE_GFP);
	if (!e)
		return ERR_PTR(-ENOMEM);
	mutex_init(&e->lock);
	INIT_LIST_HEAD(&e->maps);
	e->file = get_file(ab->file);
	info.ops = &export_ops;
	info.size = ab->core->bytes;
	info.flags = O_RDWR;
	info.priv = e;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		fput(e->file);
		mutex_destroy(&e->lock);
		kfree(e);
		return ERR_CAST(dmabuf);
	}
	return dmabuf->file;
}

bool arax_dmabuf_is_own(const struct dma_buf *dmabuf)
{
	return dmabuf->ops == &export_ops;
}

struct arax_buffer *arax_dmabuf_home(const struct dma_buf *dmabuf, struct file **file)
{
	struct export *e = dmabuf->priv;

	*file = get_file(e->file);
	return arax_pages_owner(e->file);
}

#else /* !ARAX_DMABUF */

struct file *arax_dmabuf_export(struct arax_buffer *ab)
{
	return ERR_PTR(-EOPNOTSUPP);
}

#endif
