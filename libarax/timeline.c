// SPDX-License-Identifier: MIT
#include <stdlib.h>

#include "internal.h"

static int timeline_add(struct arax *ax, uint32_t handle, struct arax_timeline **timeline)
{
	struct arax_handle h = { .size = sizeof(h), .handle = handle };
	struct arax_timeline *t = calloc(1, sizeof(*t));

	if (!t) {
		ax->link->ops->call(ax->link, ARAX_NR_TIMELINE_DESTROY, &h);
		return error_set(-ENOMEM, "making a timeline");
	}
	t->ax = ax;
	t->handle = handle;
	pthread_mutex_lock(&ax->object_lock);
	t->next = ax->timelines;
	ax->timelines = t;
	pthread_mutex_unlock(&ax->object_lock);
	*timeline = t;
	return 0;
}

int arax_timeline_create(struct arax *ax, uint64_t value, struct arax_timeline **timeline)
{
	struct arax_timeline_create a = { .size = sizeof(a), .value = value };
	int ret = context_call(ax, "creating a timeline", ARAX_NR_TIMELINE_CREATE, &a);

	return ret ? ret : timeline_add(ax, a.handle, timeline);
}

int arax_timeline_import(struct arax *ax, int fd, struct arax_timeline **timeline)
{
	struct arax_timeline_share a = { .size = sizeof(a), .fd = fd };
	int ret;

	if (fd < 0)
		return error_set(-EBADF, "importing descriptor %d", fd);
	ret = context_call(ax, "importing a timeline", ARAX_NR_TIMELINE_IMPORT, &a);
	if (ret == -EINVAL)
		error_set(ret, "importing descriptor %d: it is not what arax_timeline_export() gave", fd);
	return ret ? ret : timeline_add(ax, a.handle, timeline);
}

int arax_timeline_export(struct arax_timeline *timeline)
{
	struct arax_timeline_share a = { .size = sizeof(a), .handle = timeline->handle, .fd = -1 };
	int ret = context_call(timeline->ax, "exporting a timeline", ARAX_NR_TIMELINE_EXPORT, &a);

	return ret ? ret : a.fd;
}

int arax_timeline_query(struct arax_timeline *timeline, uint64_t *value)
{
	struct arax_timeline_point a = { .size = sizeof(a), .handle = timeline->handle };
	int ret = context_call(timeline->ax, "asking about a timeline", ARAX_NR_TIMELINE_QUERY,
			       &a);

	if (ret)
		return ret;
	*value = a.value;
	if (!a.error)
		return 0;
	/* Perhaps of a task of ours: what the caller submits now knows of its failure. */
	complete_all(timeline->ax);
	return error_set(a.error, "the task that signalled the timeline");
}

int arax_timeline_advance(struct arax_timeline *timeline, uint64_t value, int error)
{
	struct arax_timeline_point a = {
		.size = sizeof(a),
		.handle = timeline->handle,
		.value = value,
		.error = error,
	};

	int ret = context_call(timeline->ax, "advancing a timeline", ARAX_NR_TIMELINE_ADVANCE, &a);

	if (ret == -EINVAL)
		error_set(ret, "advancing a timeline to %llu with error %d: its value never goes back, and an error is 0 or a negative errno",
			  (unsigned long long)value, error);
	return ret;
}

int arax_timeline_eventfd(struct arax_timeline *timeline, uint64_t value, int fd)
{
	struct arax_timeline_eventfd a = {
		.size = sizeof(a),
		.handle = timeline->handle,
		.value = value,
		.fd = fd,
	};

	int ret;

	if (fd < 0)
		return error_set(-EBADF, "signalling descriptor %d", fd);
	ret = context_call(timeline->ax, "arming an eventfd", ARAX_NR_TIMELINE_EVENTFD, &a);
	if (ret == -EINVAL)
		error_set(ret, "signalling descriptor %d: it is no eventfd", fd);
	return ret;
}

void arax_timeline_destroy(struct arax_timeline *timeline)
{
	struct arax_handle h = { .size = sizeof(h) };
	struct arax_timeline **at;
	struct arax *ax;

	if (!timeline || !is_owner(timeline->ax))
		return;
	ax = timeline->ax;
	pthread_mutex_lock(&ax->object_lock);
	for (at = &ax->timelines; *at && *at != timeline; at = &(*at)->next)
		;
	if (*at)
		*at = timeline->next;
	pthread_mutex_unlock(&ax->object_lock);
	h.handle = timeline->handle;
	ax->link->ops->call(ax->link, ARAX_NR_TIMELINE_DESTROY, &h);
	free(timeline);
}

static int wait_points(const struct arax_point *points, size_t count, uint32_t flags,
		       uint64_t deadline)
{
	struct arax_wait a = {
		.size = sizeof(a),
		.flags = flags,
		.count = (uint32_t)count,
		.deadline_ns = deadline,
	};
	struct arax *ax;
	size_t i;
	int ret;

	if (!count || count > ARAX_WAIT_MAX)
		return error_set(-EINVAL, "waiting for %zu points: want 1 to %d", count,
				 ARAX_WAIT_MAX);
	ax = points[0].timeline->ax;
	for (i = 0; i < count; i++) {
		if (points[i].timeline->ax != ax)
			return error_set(-EINVAL, "waiting for timelines of several contexts");
		a.points[i].timeline = points[i].timeline->handle;
		a.points[i].value = points[i].value;
	}
	do {
		ret = context_call(ax, "waiting for timelines", ARAX_NR_WAIT, &a);
	} while (ret == -EINTR);
	return ret ? ret : flags & ARAX_WAIT_ALL ? 0 : (int)a.index;
}

int arax_timeline_wait_all(const struct arax_point *points, size_t count, uint64_t deadline)
{
	return wait_points(points, count, ARAX_WAIT_ALL, deadline);
}

int arax_timeline_wait_any(const struct arax_point *points, size_t count, uint64_t deadline)
{
	return wait_points(points, count, ARAX_WAIT_ANY, deadline);
}
