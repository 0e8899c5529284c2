// SPDX-License-Identifier: MIT
#include <arax/uapi.h>

#include "names.h"

static const char *const kinds_by_number[] = { "cpu", "opencl", "cuda", "hip", "xrt", "sim" };

#define NR_KINDS	(sizeof(kinds_by_number) / sizeof(kinds_by_number[0]))

const char *kind_name(uint32_t kind)
{
	return kind < NR_KINDS ? kinds_by_number[kind] : "unknown";
}

json_t *kind_list(uint32_t kinds)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < 32; i++) {
		if (kinds >> i & 1)
			json_array_append_new(list, json_string(kind_name(i)));
	}
	return list;
}

const char *link_name(uint32_t link)
{
	return link == ARAX_LINK_KERNEL ? "kernel" : link == ARAX_LINK_BROKER ? "broker" : "unknown";
}
