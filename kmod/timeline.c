// SPDX-License-Identifier: GPL-2.0
/* Timelines as descriptors, and the eventfds that they signal. */
#include <linux/anon_inodes.h>
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "module.h"

static int timeline_release(struct inode *inode, struct file *file)
{
	core_timeline_put(arax.core, file->private_data);
	return 0;
}

static const struct file_operations timeline_fops = {
	.owner		= THIS_MODULE,
	.release	= timeline_release,
	.llseek		= noop_llseek,
};

/* On success the file owns the reference; on error it stays the core's. */
int arax_timeline_export(struct core_client *c, struct core_timeline *tl)
{
	struct file *file;
	int fd = arax_file_room();

	if (fd)
		return fd;
	file = anon_inode_getfile("[arax-timeline]", &timeline_fops, tl, O_RDWR);
	if (IS_ERR(file))
		return PTR_ERR(file);
	/* The file drops one of its own if no descriptor can be had. */
	core_spin_lock(&c->core->dispatch);
	tl->refs++;
	core_spin_unlock(&c->core->dispatch);
	fd = arax_frame_publish(file);
	if (fd >= 0)
		core_timeline_put(c->core, tl);
	return fd;
}

struct core_timeline *arax_timeline_import(struct core_client *c, int fd, int *err)
{
	struct core_timeline *tl;
	struct file *file = fget(fd);

	*err = -EBADF;
	if (!file)
		return NULL;
	if (file->f_op != &timeline_fops) {
		*err = -EINVAL;
		fput(file);
		return NULL;
	}
	tl = file->private_data;
	core_spin_lock(&c->core->dispatch);
	tl->refs++;
	core_spin_unlock(&c->core->dispatch);
	fput(file);
	*err = 0;
	return tl;
}

/*
 * The eventfds that one context has armed.  Those that others fire are signalled by one
 * work of its own, one after the other: however many they are, the context has no more
 * than one of the queue's workers.
 */
struct arax_signals {
	refcount_t refs;		/* the context, its events, the work that is queued */
	struct mm_struct *mm;		/* the context's process, mm_count held */
	struct work_struct work;
	spinlock_t lock;		/* innermost: fired */
	struct list_head fired;		/* arax_event.node */
};

/* An eventfd that is armed. */
struct arax_event {
	struct eventfd_ctx *ctx;
	struct arax_signals *signals;	/* reference held */
	struct list_head node;
};

void arax_signals_put(struct arax_signals *s)
{
	if (!refcount_dec_and_test(&s->refs))
		return;
	mmdrop(s->mm);
	kfree(s);
}

static void event_free(struct arax_event *e)
{
	eventfd_ctx_put(e->ctx);
	arax_signals_put(e->signals);
	kfree(e);
}

static void event_signal(struct arax_event *e)
{
	compat_eventfd_signal(e->ctx);
	event_free(e);
}

static struct arax_event *take_fired(struct arax_signals *s)
{
	struct arax_event *e;

	spin_lock(&s->lock);
	e = list_first_entry_or_null(&s->fired, struct arax_event, node);
	if (e)
		list_del(&e->node);
	spin_unlock(&s->lock);
	return e;
}

static void signals_work(struct work_struct *work)
{
	struct arax_signals *s = container_of(work, struct arax_signals, work);
	struct arax_event *e;

	while ((e = take_fired(s))) {
		event_signal(e);
		cond_resched();
	}
	arax_signals_put(s);
}

struct arax_signals *arax_signals_new(void)
{
	struct arax_signals *s = kzalloc(sizeof(*s), CORE_GFP);

	if (!s)
		return NULL;
	refcount_set(&s->refs, 1);
	s->mm = current->mm;
	mmgrab(s->mm);
	INIT_WORK(&s->work, signals_work);
	spin_lock_init(&s->lock);
	INIT_LIST_HEAD(&s->fired);
	return s;
}

void *arax_event_get(struct core_client *c, int fd, int *err)
{
	struct arax_client *ac = c->link;
	struct arax_event *e = kzalloc(sizeof(*e), CORE_GFP);

	*err = -ENOMEM;
	if (!e)
		return NULL;
	e->ctx = eventfd_ctx_fdget(fd);
	if (IS_ERR(e->ctx)) {
		*err = PTR_ERR(e->ctx);
		kfree(e);
		return NULL;
	}
	e->signals = ac->signals;
	refcount_inc(&e->signals->refs);
	*err = 0;
	return e;
}

static void signal_later(struct arax_event *e)
{
	struct arax_signals *s = e->signals;

	/* The work's, and before it can find the event, which may hold the last one. */
	refcount_inc(&s->refs);
	spin_lock(&s->lock);
	list_add_tail(&e->node, &s->fired);
	spin_unlock(&s->lock);
	/* A work that runs already is queued anew: it may have seen the list empty. */
	if (!queue_work(arax.events, &s->work))
		arax_signals_put(s);
}

/*
 * An eventfd may have any number of waiters, and signalling it walks through all of them.
 * That is time of the process that armed it, or of nobody's: not of whoever commits tasks
 * of all tenants.
 */
void arax_event_end(void *event, bool fired)
{
	struct arax_event *e = event;

	if (!fired)
		event_free(e);
	else if (current->mm == e->signals->mm)
		event_signal(e);
	else
		signal_later(e);
}
