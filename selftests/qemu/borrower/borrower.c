// SPDX-License-Identifier: GPL-2.0
/*
 * A driver that borrows others' dma-bufs: an open /dev/borrower is attached to one at most, until
 * it is told to let go, or closed.  Its device reads and writes by DMA addresses: where the kernel
 * bounces them (swiotlb=force) that is no memory of the buffer's, as with one that is not coherent.
 */
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-direct.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

#include "borrower.h"

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif

#define SLOW_MS	60

static struct platform_device *device;

struct borrower {
	struct mutex lock;		/* all of it */
	struct dma_buf *dmabuf;		/* attached, or NULL */
	struct dma_buf_attachment *at;
	struct sg_table *table;		/* mapped, or NULL */
	enum dma_data_direction dir;
	struct iosys_map map;
};

static bool bytes(u8 *p, size_t n, size_t first, unsigned int seed, bool write)
{
	size_t i;

	for (i = 0; i < n; i++) {
		u8 byte = (first + i) * 31 + seed;

		if (write)
			p[i] = byte;
		else if (p[i] != byte)
			return false;
	}
	return true;
}

static int by_device(struct borrower *b, unsigned int seed, bool write)
{
	struct scatterlist *sg;
	size_t first = 0;
	int i;

	if (!b->table)
		return -ENXIO;
	for_each_sgtable_dma_sg(b->table, sg, i) {
		u8 *p = phys_to_virt(dma_to_phys(&device->dev, sg_dma_address(sg)));

		if (!bytes(p, sg_dma_len(sg), first, seed, write))
			return 0;
		first += sg_dma_len(sg);
	}
	return write ? 0 : first == b->dmabuf->size;
}

static int by_kernel(struct borrower *b, unsigned int seed, bool write)
{
	bool found;

	if (iosys_map_is_null(&b->map))
		return -ENXIO;
	found = bytes(b->map.vaddr, b->dmabuf->size, 0, seed, write);
	return write ? 0 : found;
}

static int attach(struct borrower *b, int fd)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	struct dma_buf_attachment *at;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	at = dma_buf_attach(dmabuf, &device->dev);
	if (IS_ERR(at)) {
		dma_buf_put(dmabuf);
		return PTR_ERR(at);
	}
	b->dmabuf = dmabuf;
	b->at = at;
	return 0;
}

/* 6.2 wants the lock held, or has calls that take it; 6.1 has none of those. */
static int map(struct borrower *b, enum dma_data_direction dir)
{
	struct sg_table *table;

	if (b->table)
		return -EBUSY;
	dma_resv_lock(b->dmabuf->resv, NULL);
	table = dma_buf_map_attachment(b->at, dir);
	dma_resv_unlock(b->dmabuf->resv);
	if (IS_ERR(table))
		return PTR_ERR(table);
	b->table = table;
	b->dir = dir;
	return 0;
}

static void unmap(struct borrower *b)
{
	if (!b->table)
		return;
	dma_resv_lock(b->dmabuf->resv, NULL);
	dma_buf_unmap_attachment(b->at, b->table, b->dir);
	dma_resv_unlock(b->dmabuf->resv);
	b->table = NULL;
}

static int map_for_kernel(struct borrower *b)
{
	int err;

	if (!iosys_map_is_null(&b->map))
		return -EBUSY;
	dma_resv_lock(b->dmabuf->resv, NULL);
	err = dma_buf_vmap(b->dmabuf, &b->map);
	dma_resv_unlock(b->dmabuf->resv);
	return err;
}

static void unmap_for_kernel(struct borrower *b)
{
	if (iosys_map_is_null(&b->map))
		return;
	dma_resv_lock(b->dmabuf->resv, NULL);
	dma_buf_vunmap(b->dmabuf, &b->map);
	dma_resv_unlock(b->dmabuf->resv);
	iosys_map_clear(&b->map);
}

static void detach(struct borrower *b)
{
	if (!b->dmabuf)
		return;
	unmap_for_kernel(b);
	unmap(b);
	dma_buf_detach(b->dmabuf, b->at);
	dma_buf_put(b->dmabuf);
	b->dmabuf = NULL;
}

static struct sg_table *lent_map(struct dma_buf_attachment *at, enum dma_data_direction dir)
{
	return ERR_PTR(-ENXIO);
}

static void lent_unmap(struct dma_buf_attachment *at, struct sg_table *table,
		       enum dma_data_direction dir)
{
}

static int lent_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	return -ENXIO;
}

static void lent_release(struct dma_buf *dmabuf)
{
	vfree(dmabuf->priv);
}

static const struct dma_buf_ops without_mmap = {
	.map_dma_buf	= lent_map,
	.unmap_dma_buf	= lent_unmap,
	.release	= lent_release,
};

static const struct dma_buf_ops with_mmap = {
	.map_dma_buf	= lent_map,
	.unmap_dma_buf	= lent_unmap,
	.mmap		= lent_mmap,
	.release	= lent_release,
};

static int slow_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	msleep(SLOW_MS);
	return remap_vmalloc_range(vma, dmabuf->priv, vma->vm_pgoff);
}

static const struct dma_buf_ops with_slow_mmap = {
	.map_dma_buf	= lent_map,
	.unmap_dma_buf	= lent_unmap,
	.mmap		= slow_mmap,
	.release	= lent_release,
};

static int lend(unsigned long kind)
{
	static const struct {
		const struct dma_buf_ops *ops;
		size_t size;
	} kinds[] = {
		[LEND_WITHOUT_MMAP] = { &without_mmap, PAGE_SIZE },
		[LEND_ODD_SIZE] = { &with_mmap, PAGE_SIZE + 1 },
		[LEND_EMPTY] = { &with_mmap, 0 },
		[LEND_SLOW_MMAP] = { &with_slow_mmap, PAGE_SIZE },
	};
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;
	void *memory;
	int fd;

	if (kind >= ARRAY_SIZE(kinds))
		return -EINVAL;
	memory = vmalloc_user(PAGE_SIZE);
	if (!memory)
		return -ENOMEM;
	info.ops = kinds[kind].ops;
	info.size = kinds[kind].size;
	info.flags = O_RDWR;
	info.priv = memory;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		vfree(memory);
		return PTR_ERR(dmabuf);
	}
	fd = dma_buf_fd(dmabuf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(dmabuf);
	return fd;
}

static int attached(struct borrower *b, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case BORROW_DETACH:
		detach(b);
		return 0;
	case BORROW_MAP:
		return map(b, arg);
	case BORROW_UNMAP:
		unmap(b);
		return 0;
	case BORROW_FILL:
	case BORROW_FILLED:
		return by_device(b, arg, cmd == BORROW_FILL);
	case BORROW_VMAP:
		return map_for_kernel(b);
	case BORROW_VUNMAP:
		unmap_for_kernel(b);
		return 0;
	case BORROW_VFILL:
	case BORROW_VFILLED:
		return by_kernel(b, arg, cmd == BORROW_VFILL);
	case BORROW_BEGIN:
		return dma_buf_begin_cpu_access(b->dmabuf, arg);
	case BORROW_END:
		return dma_buf_end_cpu_access(b->dmabuf, arg);
	}
	return -ENOTTY;
}

static long borrower_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct borrower *b = file->private_data;
	int ret;

	if (cmd == BORROW_LEND)
		return lend(arg);
	mutex_lock(&b->lock);
	if (cmd == BORROW_ATTACH)
		ret = b->dmabuf ? -EBUSY : attach(b, arg);
	else
		ret = b->dmabuf ? attached(b, cmd, arg) : -ENXIO;
	mutex_unlock(&b->lock);
	return ret;
}

static int borrower_open(struct inode *inode, struct file *file)
{
	struct borrower *b = kzalloc(sizeof(*b), GFP_KERNEL);

	if (!b)
		return -ENOMEM;
	mutex_init(&b->lock);
	file->private_data = b;
	return 0;
}

static int borrower_release(struct inode *inode, struct file *file)
{
	struct borrower *b = file->private_data;

	detach(b);
	mutex_destroy(&b->lock);
	kfree(b);
	return 0;
}

static const struct file_operations borrower_fops = {
	.owner		= THIS_MODULE,
	.open		= borrower_open,
	.release	= borrower_release,
	.unlocked_ioctl	= borrower_ioctl,
};

static struct miscdevice node = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "borrower",
	.fops	= &borrower_fops,
	.mode	= 0600,
};

static int __init borrower_init(void)
{
	int err;

	device = platform_device_register_simple("borrower", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(device))
		return PTR_ERR(device);
	err = dma_set_mask_and_coherent(&device->dev, DMA_BIT_MASK(64));
	if (!err)
		err = misc_register(&node);
	if (err)
		platform_device_unregister(device);
	return err;
}

static void __exit borrower_exit(void)
{
	misc_deregister(&node);
	platform_device_unregister(device);
}

module_init(borrower_init);
module_exit(borrower_exit);

MODULE_DESCRIPTION("Uses other drivers' dma-bufs as it is told");
MODULE_LICENSE("GPL");
