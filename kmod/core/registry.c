// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Devices and kernels that the mediator publishes and clients look up. */
#include "core.h"

static bool named(const char *name)
{
	return name[0] && strnlen(name, ARAX_NAME_LEN) < ARAX_NAME_LEN;
}

#define ASK_NS	1000000000ull	/* figures that are as old are asked for anew, and no sooner again */

int core_device_publish(struct core *core, const struct arax_device *a)
{
	struct core_device *d, *spare;
	u64 now;
	int err = 0;

	if (a->index >= CORE_MAX_DEVICES)
		return -ENOSPC;
	if (!named(a->name) || a->flags & ~ARAX_DEVICE_ONLINE || a->pad ||
	    a->known & ~ARAX_DEVICE_KNOWN ||
	    strnlen(a->reason, ARAX_REASON_LEN) == ARAX_REASON_LEN)
		return -EINVAL;
	spare = core_alloc(sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	now = core_now_ns();
	core_spin_lock(&core->dispatch);
	if (a->index > core->nr_devices) {
		err = -EINVAL;		/* devices are numbered without gaps */
		goto unlock;
	}
	d = core->devices[core_nospec(a->index, CORE_MAX_DEVICES)];
	if (!d) {
		d = spare;
		spare = NULL;
		core->devices[a->index] = d;
		core_write_once(core->nr_devices, core->nr_devices + 1);
	}
	d->d = *a;
	d->known_ns = a->age_ns < now ? now - a->age_ns : 0;
	/* Of a device that is lost meanwhile nothing is known: that is an answer, too. */
	if (!a->known || a->age_ns < ASK_NS)
		core->asked = false;
unlock:
	core_spin_unlock(&core->dispatch);
	core_free(spare);
	return err;
}

/* However many look, and however often: once a second, and not before it has answered. */
static void ask_for(struct core *core, const struct arax_device *a, u64 now,
		    struct core_garbage *g)
{
	if (!a->known || a->age_ns < ASK_NS || core->asked || now - core->asked_ns < ASK_NS)
		return;
	core->asked_ns = now;
	core->asked = core_note_devices(core, g);
}

int core_device_query(struct core *core, struct arax_device *a)
{
	const struct core_device *d;
	struct core_garbage g;
	u32 size = a->size;
	int err = -ENOENT;
	u64 now;

	core_garbage_init(&g);
	core_spin_lock(&core->dispatch);
	if (a->index < core->nr_devices) {
		d = core->devices[core_nospec(a->index, CORE_MAX_DEVICES)];
		now = core_now_ns();
		*a = d->d;
		a->size = size;
		a->age_ns = a->known ? now - d->known_ns : 0;
		ask_for(core, a, now, &g);
		err = 0;
	}
	core_unlock_collect(core, &g);
	return err;
}

void core_devices_forget(struct core *core)
{
	const size_t at = __builtin_offsetof(struct arax_device, known);
	u32 i;

	core_spin_lock(&core->dispatch);
	for (i = 0; i < core->nr_devices; i++)
		memset((u8 *)&core->devices[i]->d + at, 0, sizeof(struct arax_device) - at);
	core->asked = false;
	core_spin_unlock(&core->dispatch);
}

static bool same_signature(const struct arax_signature *a, const struct arax_signature *b)
{
	return a->nr_ranges == b->nr_ranges && a->arg_len == b->arg_len &&
	       a->access == b->access && a->abi_hash == b->abi_hash;
}

/* Every range has an access and none stands beyond the last. */
static bool sane_signature(const struct arax_signature *sig)
{
	u32 i;

	if (sig->nr_ranges > ARAX_MAX_RANGES || sig->arg_len > ARAX_MAX_ARGS)
		return false;
	for (i = 0; i < ARAX_MAX_RANGES; i++)
		if (!!(sig->access >> (2 * i) & 3) != (i < sig->nr_ranges))
			return false;
	return true;
}

static struct core_kernel *same_kernel(struct core *core, const struct arax_kernel_publish *a)
{
	u32 i;

	for (i = 0; i < core->nr_kernels; i++) {
		struct core_kernel *k = core->kernels[i];

		if (!strncmp(k->name, a->name, ARAX_NAME_LEN) && same_signature(&k->sig, &a->sig))
			return k;
	}
	return NULL;
}

/*
 * Those of that name but @but, which there is already, are looked up and launched no more.  Who
 * looks meanwhile, and has passed @but, sees by the count that it has to look again.
 */
static void withdraw(struct core *core, const char *name, const struct core_kernel *but)
{
	u32 i;

	for (i = 0; i < core->nr_kernels; i++) {
		struct core_kernel *k = core->kernels[i];

		if (k == but || !k->kinds || strncmp(k->name, name, ARAX_NAME_LEN))
			continue;
		/* Both pair with the acquires in find_named(). */
		core_store_release(&core->kernels_replaced, core->kernels_replaced + 1);
		core_store_release(&k->kinds, 0);
	}
}

/*
 * The same name and signature keep their id; a changed signature is a new
 * kernel, and the old id's launches are refused from then on.
 */
int core_kernel_publish(struct core *core, struct arax_kernel_publish *a)
{
	struct core_kernel *k, *spare;
	int err = 0;

	if (a->pad || !named(a->name) || !sane_signature(&a->sig) ||
	    strnlen(a->text, sizeof(a->text)) == sizeof(a->text))
		return -EINVAL;
	spare = core_alloc(sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	core_mutex_lock(&core->lock);
	k = same_kernel(core, a);
	if (k) {
		core_store_release(&k->kinds, a->kinds);
		withdraw(core, a->name, k);
		a->id = k->id;
		goto unlock;
	}
	if (core->nr_kernels == CORE_MAX_KERNELS) {
		err = -ENOSPC;
		goto unlock;
	}
	k = spare;
	spare = NULL;
	k->id = core->nr_kernels + 1;
	k->kinds = a->kinds;
	k->sig = a->sig;
	memcpy(k->name, a->name, sizeof(k->name));
	memcpy(k->text, a->text, sizeof(k->text));
	a->id = k->id;
	/* Pairs with the acquire in core_kernel_find(). */
	core_store_release(&core->kernels[core->nr_kernels], k);
	core_write_once(core->nr_kernels, core->nr_kernels + 1);
	withdraw(core, a->name, k);
unlock:
	core_mutex_unlock(&core->lock);
	core_free(spare);
	return err;
}

/* Without a lock: a published kernel never goes away. */
const struct core_kernel *core_kernel_find(struct core *core, u32 id)
{
	u32 i = id - 1;

	if (i >= CORE_MAX_KERNELS)
		return NULL;
	/* Pairs with the release in core_kernel_publish(). */
	return core_load_acquire(&core->kernels[core_nospec(i, CORE_MAX_KERNELS)]);
}

static const struct core_kernel *scan(struct core *core, const struct arax_kernel_lookup *a,
				      u32 *kinds)
{
	const struct core_kernel *k;
	u32 id;

	for (id = 1; (k = core_kernel_find(core, id)); id++) {
		*kinds = core_load_acquire(&k->kinds);
		if (*kinds && (a->name[0] ? !strcmp(k->name, a->name) : id >= a->id))
			break;
	}
	return k;
}

/* A name that is published anew with another signature is there all the time. */
static const struct core_kernel *find_named(struct core *core, const struct arax_kernel_lookup *a,
					    u32 *kinds)
{
	const struct core_kernel *k;
	u32 replaced;

	do {
		replaced = core_load_acquire(&core->kernels_replaced);
		k = scan(core, a, kinds);
	} while (!k && core_load_acquire(&core->kernels_replaced) != replaced);
	return k;
}

/*
 * Without a lock: there may be thousands to compare with, clients may ask as often as they
 * like, and who is preempted meanwhile is not to stop everybody else.
 */
int core_kernel_lookup(struct core *core, struct arax_kernel_lookup *a)
{
	const struct core_kernel *k;
	u32 kinds;

	if (a->pad || strnlen(a->name, sizeof(a->name)) == sizeof(a->name))
		return -EINVAL;
	k = find_named(core, a, &kinds);
	if (!k)
		return -ENOENT;
	a->id = k->id;
	a->kinds = kinds;
	a->sig = k->sig;
	memcpy(a->name, k->name, sizeof(a->name));
	memcpy(a->text, k->text, sizeof(a->text));
	return 0;
}
