// SPDX-License-Identifier: MIT
/*
 * What stands in front of every OpenCL C source: error numbers, and the share of
 * a work-group as arax/kernel.h deals it.  docs/kernels-reference.md describes it.
 *
 * ARAX_EACH(i, n) runs a loop over this work-item's part of n items: a group's
 * share is contiguous, as on the CPU.  On a GPU its work-items take turns in it, so
 * that neighbours read neighbouring memory.  Where they run one after the other, on a
 * processor, each has a piece of it: by turns every one of them would go through all of
 * the group's memory, and not by 1, so that compilers have no use for vectors.  Names of
 * its own begin with arax_, as a kernel may have any others.
 */
#include "daemon/backends/opencl/opencl.h"

#define COMMON \
	"#ifdef cl_khr_fp64\n" \
	"#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" \
	"#endif\n" \
	"#pragma OPENCL FP_CONTRACT OFF\n" \
	"#define EIO 5\n" \
	"#define EFAULT 14\n" \
	"#define EINVAL 22\n" \
	"#define EDOM 33\n" \
	"#define ERANGE 34\n" \
	"#define EOPNOTSUPP 95\n" \
	"static ulong arax_groups(void)\n" \
	"{ return get_num_groups(0) * get_num_groups(1) * get_num_groups(2); }\n" \
	"static ulong arax_group(void)\n" \
	"{ return get_group_id(0) + get_num_groups(0) *\n" \
	"  (get_group_id(1) + get_num_groups(1) * get_group_id(2)); }\n" \
	"static ulong arax_items(void)\n" \
	"{ return get_local_size(0) * get_local_size(1) * get_local_size(2); }\n" \
	"static ulong arax_item(void)\n" \
	"{ return get_local_id(0) + get_local_size(0) *\n" \
	"  (get_local_id(1) + get_local_size(1) * get_local_id(2)); }\n" \
	"static ulong arax_share(ulong n, ulong group)\n" \
	"{ ulong each = n / arax_groups(), more = n % arax_groups();\n" \
	"  return group * each + (group < more ? group : more); }\n"

/* Errors of a source have its own lines. */
#define LAST	"#line 1\n"

static const char by_turns[] =
	COMMON
	"#define ARAX_EACH(i, n) \\\n"
	"	for (ulong i = arax_share((n), arax_group()) + arax_item(), \\\n"
	"	     arax_end_##i = arax_share((n), arax_group() + 1); \\\n"
	"	     i < arax_end_##i; i += arax_items())\n"
	LAST;

static const char in_pieces[] =
	COMMON
	"static ulong arax_lesser(ulong a, ulong b)\n"
	"{ return a < b ? a : b; }\n"
	"#define ARAX_EACH(i, n) \\\n"
	"	for (ulong arax_first_##i = arax_share((n), arax_group()), \\\n"
	"	     arax_all_##i = arax_share((n), arax_group() + 1) - arax_first_##i, \\\n"
	"	     arax_each_##i = arax_all_##i / arax_items() + (arax_all_##i % arax_items() != 0), \\\n"
	"	     i = arax_first_##i + arax_lesser(arax_each_##i * arax_item(), arax_all_##i), \\\n"
	"	     arax_end_##i = arax_lesser(i + arax_each_##i, arax_first_##i + arax_all_##i); \\\n"
	"	     i < arax_end_##i; i++)\n"
	LAST;

const char *opencl_prelude(bool gpu)
{
	return gpu ? by_turns : in_pieces;
}
