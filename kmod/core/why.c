// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Why tasks failed, in words: what the mediator says of a task before it commits its end, for
 * the task's context alone.  The last few of each context; who never fails has no room for any.
 * core->dispatch guards them, by which a context stays whose task has its slot.
 */
#include "core.h"

#define NR_WHYS	16

struct core_why {
	u64 tag;
	char text[ARAX_WHY_LEN];
};

struct core_whys {
	u32 next;
	struct core_why at[NR_WHYS];
};

static struct core_client *owner(struct core *core, u64 tag)
{
	u32 i = ARAX_TAG_SLOT(tag);
	struct core_client *c = NULL;
	struct core_task *t;

	if (i >= core->params.slots)
		return NULL;
	i = (u32)core_nospec(i, core->params.slots);
	t = core->slots[i].task;
	if (t && t->d.tag == tag)
		c = t->client;
	return c;
}

int core_task_explain(struct core *core, const struct arax_task_why *a)
{
	struct core_whys *spare;
	struct core_client *c;
	struct core_why *w;

	if (a->pad || !a->text[0] || strnlen(a->text, ARAX_WHY_LEN) == ARAX_WHY_LEN)
		return -EINVAL;
	spare = core_alloc(sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	core_spin_lock(&core->dispatch);
	c = owner(core, a->tag);
	if (c && !c->whys) {
		c->whys = spare;
		spare = NULL;
	}
	if (c) {
		w = &c->whys->at[c->whys->next++ % NR_WHYS];
		w->tag = a->tag;
		memcpy(w->text, a->text, sizeof(w->text));
	}
	core_spin_unlock(&core->dispatch);
	core_free(spare);
	return c ? 0 : -ESTALE;
}

int core_task_why(struct core_client *c, struct arax_task_why *a)
{
	int err = -ENOENT;
	u32 i;

	if (a->pad)
		return -EINVAL;
	core_spin_lock(&c->core->dispatch);
	for (i = 0; c->whys && i < NR_WHYS; i++) {
		const struct core_why *w = &c->whys->at[i];

		if (!a->tag || w->tag != a->tag)
			continue;
		memcpy(a->text, w->text, sizeof(a->text));
		err = 0;
	}
	core_spin_unlock(&c->core->dispatch);
	return err;
}
