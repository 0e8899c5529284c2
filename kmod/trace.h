/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints: events/arax/ in tracefs.  Numbers only, no pointer is followed
 * when an event is printed.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM arax

#if !defined(ARAX_KMOD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define ARAX_KMOD_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(arax_context_create,
	TP_PROTO(u32 context, u32 uid, u64 tenant),
	TP_ARGS(context, uid, tenant),
	TP_STRUCT__entry(
		__field(u32, context)
		__field(u32, uid)
		__field(u64, tenant)
	),
	TP_fast_assign(
		__entry->context = context;
		__entry->uid = uid;
		__entry->tenant = tenant;
	),
	TP_printk("context=%u uid=%u tenant=%llu", __entry->context, __entry->uid,
		  __entry->tenant)
);

TRACE_EVENT(arax_context_release,
	TP_PROTO(u32 context),
	TP_ARGS(context),
	TP_STRUCT__entry(__field(u32, context)),
	TP_fast_assign(__entry->context = context;),
	TP_printk("context=%u", __entry->context)
);

TRACE_EVENT(arax_submit,
	TP_PROTO(u32 context, u32 asked, int consumed),
	TP_ARGS(context, asked, consumed),
	TP_STRUCT__entry(
		__field(u32, context)
		__field(u32, asked)
		__field(int, consumed)
	),
	TP_fast_assign(
		__entry->context = context;
		__entry->asked = asked;
		__entry->consumed = consumed;
	),
	TP_printk("context=%u asked=%u consumed=%d", __entry->context, __entry->asked,
		  __entry->consumed)
);

TRACE_EVENT(arax_commit,
	TP_PROTO(u32 count, u32 done, u32 stale),
	TP_ARGS(count, done, stale),
	TP_STRUCT__entry(
		__field(u32, count)
		__field(u32, done)
		__field(u32, stale)
	),
	TP_fast_assign(
		__entry->count = count;
		__entry->done = done;
		__entry->stale = stale;
	),
	TP_printk("count=%u done=%u stale=%u", __entry->count, __entry->done, __entry->stale)
);

TRACE_EVENT(arax_buffer_create,
	TP_PROTO(u32 context, u32 buffer, u64 bytes, u32 type),
	TP_ARGS(context, buffer, bytes, type),
	TP_STRUCT__entry(
		__field(u32, context)
		__field(u32, buffer)
		__field(u64, bytes)
		__field(u32, type)
	),
	TP_fast_assign(
		__entry->context = context;
		__entry->buffer = buffer;
		__entry->bytes = bytes;
		__entry->type = type;
	),
	TP_printk("context=%u buffer=%u bytes=%llu type=%u", __entry->context, __entry->buffer,
		  __entry->bytes, __entry->type)
);

TRACE_EVENT(arax_buffer_free,
	TP_PROTO(u32 buffer, u64 bytes),
	TP_ARGS(buffer, bytes),
	TP_STRUCT__entry(
		__field(u32, buffer)
		__field(u64, bytes)
	),
	TP_fast_assign(
		__entry->buffer = buffer;
		__entry->bytes = bytes;
	),
	TP_printk("buffer=%u bytes=%llu", __entry->buffer, __entry->bytes)
);

TRACE_EVENT(arax_attach,
	TP_PROTO(u32 epoch, u32 flags),
	TP_ARGS(epoch, flags),
	TP_STRUCT__entry(
		__field(u32, epoch)
		__field(u32, flags)
	),
	TP_fast_assign(
		__entry->epoch = epoch;
		__entry->flags = flags;
	),
	TP_printk("epoch=%u flags=%#x", __entry->epoch, __entry->flags)
);

TRACE_EVENT(arax_detach,
	TP_PROTO(u32 epoch),
	TP_ARGS(epoch),
	TP_STRUCT__entry(__field(u32, epoch)),
	TP_fast_assign(__entry->epoch = epoch;),
	TP_printk("epoch=%u", __entry->epoch)
);

#endif /* ARAX_KMOD_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
