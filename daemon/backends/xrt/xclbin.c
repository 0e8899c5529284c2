// SPDX-License-Identifier: MIT
/*
 * Nothing in it is aligned, or where it says that it is, until that was looked at: all
 * is copied out.
 */
#include "daemon/backends/xrt/xclbin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xrt/xclbin.h>

#include "daemon/backends/xrt/xml.h"

#define MAX_SECTIONS	1024
#define MAX_ENTRIES	65536	/* of a table */
#define MAX_UNITS	128	/* of a kernel: XRT's limit */

struct section {
	const uint8_t *data;
	size_t bytes;
};

static struct axlf_section_header section_at(const struct xclbin *x, uint32_t i)
{
	struct axlf_section_header s;

	memcpy(&s, x->data + offsetof(struct axlf, m_sections) + i * sizeof(s), sizeof(s));
	return s;
}

static uint32_t nr_sections(const struct xclbin *x)
{
	uint32_t n;

	memcpy(&n, x->data + offsetof(struct axlf, m_header.m_numSections), sizeof(n));
	return n;
}

static bool find_section(const struct xclbin *x, uint32_t kind, struct section *s)
{
	for (uint32_t i = 0; i < nr_sections(x); i++) {
		struct axlf_section_header h = section_at(x, i);

		if (h.m_sectionKind != kind)
			continue;
		s->data = x->data + h.m_sectionOffset;
		s->bytes = h.m_sectionSize;
		return true;
	}
	return false;
}

/* A table: a count, and from @first on that many entries of @size bytes. */
static int table_of(const struct section *s, size_t first, size_t size, const char *name,
		    uint32_t *count, char *why, size_t len)
{
	int32_t n = -1;

	if (s->bytes >= sizeof(n))
		memcpy(&n, s->data, sizeof(n));
	if (n < 0 || n > MAX_ENTRIES || (n && s->bytes < first) ||
	    (n && (s->bytes - first) / size < (uint32_t)n)) {
		snprintf(why, len, "section %s has %zu bytes, too few for %" PRId32 " entries", name,
			 s->bytes, n);
		return -ENOEXEC;
	}
	*count = (uint32_t)n;
	return 0;
}

/* ------------------------------------------------------------------ */
/* Compute units                                                         */

struct units {
	struct section s;
	uint32_t count;
};

static int open_units(const struct xclbin *x, struct units *u, char *why, size_t len)
{
	if (!find_section(x, IP_LAYOUT, &u->s)) {
		snprintf(why, len, "no section IP_LAYOUT: it has no compute units");
		return -ENOEXEC;
	}
	return table_of(&u->s, offsetof(struct ip_layout, m_ip_data), sizeof(struct ip_data),
			"IP_LAYOUT", &u->count, why, len);
}

static struct ip_data unit_at(const struct units *u, uint32_t i)
{
	struct ip_data ip;

	memcpy(&ip, u->s.data + offsetof(struct ip_layout, m_ip_data) + i * sizeof(ip), sizeof(ip));
	return ip;
}

/* "vadd:vadd_1" */
static bool is_unit_of(const struct ip_data *ip, const char *name)
{
	size_t n = strlen(name);

	return ip->m_type == IP_KERNEL && n < sizeof(ip->m_name) &&
	       !memcmp(ip->m_name, name, n) && ip->m_name[n] == ':';
}

/* ------------------------------------------------------------------ */
/* The container                                                         */

static int check_section(const struct xclbin *x, uint32_t i, char *why, size_t len)
{
	struct axlf_section_header h = section_at(x, i);

	if (h.m_sectionOffset <= x->bytes && h.m_sectionSize <= x->bytes - h.m_sectionOffset)
		return 0;
	snprintf(why, len, "section %" PRIu32 " (kind %" PRIu32 ") ends at byte %" PRIu64 ", the file at %zu: it is truncated",
		 i, h.m_sectionKind, h.m_sectionOffset + h.m_sectionSize, x->bytes);
	return -ENOEXEC;
}

/* XRT reads as many entries as each of these says, in whichever section of that kind it takes. */
static int check_tables(const struct xclbin *x, char *why, size_t len)
{
	static const size_t bank = offsetof(struct mem_topology, m_mem_data);
	static const size_t wire = offsetof(struct connectivity, m_connection);
	static const struct {
		uint32_t kind;
		size_t first, size;
		const char *name;
	} tables[] = {
		{ MEM_TOPOLOGY, bank, sizeof(struct mem_data), "MEM_TOPOLOGY" },
		{ ASK_GROUP_TOPOLOGY, bank, sizeof(struct mem_data), "GROUP_TOPOLOGY" },
		{ CONNECTIVITY, wire, sizeof(struct connection), "CONNECTIVITY" },
		{ ASK_GROUP_CONNECTIVITY, wire, sizeof(struct connection), "GROUP_CONNECTIVITY" },
		{ IP_LAYOUT, offsetof(struct ip_layout, m_ip_data), sizeof(struct ip_data),
		  "IP_LAYOUT" },
	};
	int err = 0;

	for (uint32_t i = 0; !err && i < nr_sections(x); i++) {
		struct axlf_section_header h = section_at(x, i);
		struct section s = { x->data + h.m_sectionOffset, h.m_sectionSize };
		uint32_t count;

		for (size_t t = 0; !err && t < sizeof(tables) / sizeof(tables[0]); t++)
			if (tables[t].kind == h.m_sectionKind)
				err = table_of(&s, tables[t].first, tables[t].size, tables[t].name,
					       &count, why, len);
	}
	return err;
}

int xclbin_parse(struct xclbin *x, const void *data, size_t bytes, char *why, size_t len)
{
	static const char magic[8] = "xclbin2";
	const size_t head = offsetof(struct axlf, m_sections);
	struct units u;
	uint64_t length;
	uint32_t n;
	int err;

	memset(x, 0, sizeof(*x));
	x->data = data;
	x->bytes = bytes;
	if (bytes < sizeof(magic) || memcmp(data, magic, sizeof(magic))) {
		snprintf(why, len, "not an xclbin: it does not begin with \"%s\"", magic);
		return -ENOEXEC;
	}
	if (bytes < sizeof(struct axlf)) {
		snprintf(why, len, "%zu bytes, the header alone has %zu: it is truncated", bytes,
			 sizeof(struct axlf));
		return -ENOEXEC;
	}
	memcpy(&length, x->data + offsetof(struct axlf, m_header.m_length), sizeof(length));
	/* A signature may follow. */
	if (length > bytes || length < sizeof(struct axlf)) {
		snprintf(why, len, "%zu bytes, its header says %" PRIu64 "%s", bytes, length,
			 length > bytes ? ": it is truncated" : "");
		return -ENOEXEC;
	}
	bytes = length;
	x->bytes = bytes;
	n = nr_sections(x);
	if (n > MAX_SECTIONS || (bytes - head) / sizeof(struct axlf_section_header) < n) {
		snprintf(why, len, "%" PRIu32 " sections in %zu bytes", n, bytes);
		return -ENOEXEC;
	}
	for (uint32_t i = 0; i < n; i++) {
		err = check_section(x, i, why, len);
		if (err)
			return err;
	}
	err = check_tables(x, why, len);
	if (err)
		return err;
	x->uuid = x->data + offsetof(struct axlf, m_header.uuid);
	err = open_units(x, &u, why, len);
	for (uint32_t i = 0; !err && i < u.count; i++)
		x->units += unit_at(&u, i).m_type == IP_KERNEL;
	return err;
}

/* ------------------------------------------------------------------ */
/* Banks                                                                 */

static bool find_banks(const struct xclbin *x, struct section *s, uint32_t *count)
{
	char unused[128];

	return find_section(x, MEM_TOPOLOGY, s) &&
	       !table_of(s, offsetof(struct mem_topology, m_mem_data), sizeof(struct mem_data),
			 "MEM_TOPOLOGY", count, unused, sizeof(unused));
}

static struct mem_data bank_at(const struct section *s, uint32_t i)
{
	struct mem_data m;

	memcpy(&m, s->data + offsetof(struct mem_topology, m_mem_data) + i * sizeof(m), sizeof(m));
	return m;
}

uint64_t xclbin_bank_bytes(const struct xclbin *x, uint32_t bank)
{
	struct section s;
	struct mem_data m;
	uint32_t count;

	if (!find_banks(x, &s, &count) || bank >= count)
		return 0;
	m = bank_at(&s, bank);
	return m.m_used && m.m_size <= UINT64_MAX >> 10 ? m.m_size << 10 : 0;
}

static uint64_t usable_banks(const struct xclbin *x)
{
	uint64_t banks = 0;
	struct section s;
	uint32_t count;

	if (!find_banks(x, &s, &count))
		return 0;
	for (uint32_t i = 0; i < count && i < XCLBIN_MAX_BANKS; i++)
		banks |= (uint64_t)!!bank_at(&s, i).m_used << i;
	return banks;
}

/* Of one unit's argument. */
static uint64_t connected(const struct section *s, uint32_t count, uint32_t unit, uint32_t arg)
{
	uint64_t banks = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct connection c;

		memcpy(&c, s->data + offsetof(struct connectivity, m_connection) + i * sizeof(c),
		       sizeof(c));
		if (c.m_ip_layout_index == (int32_t)unit && c.arg_index == (int32_t)arg &&
		    c.mem_data_index >= 0 && c.mem_data_index < XCLBIN_MAX_BANKS)
			banks |= 1ull << c.mem_data_index;
	}
	return banks;
}

static bool in_memory(const struct xclbin_arg *a)
{
	return a->space == XCLBIN_GLOBAL || a->space == XCLBIN_CONSTANT;
}

static int find_connections(const struct xclbin *x, const struct units *u, const char *name,
			    struct xclbin_kernel *k, char *why, size_t len)
{
	struct section s = { 0 };
	uint32_t count = 0;
	int err = 0;

	k->banks = usable_banks(x);
	if (find_section(x, CONNECTIVITY, &s))
		err = table_of(&s, offsetof(struct connectivity, m_connection),
			       sizeof(struct connection), "CONNECTIVITY", &count, why, len);
	for (uint32_t i = 0; !err && i < u->count; i++) {
		struct ip_data ip = unit_at(u, i);

		if (!is_unit_of(&ip, name))
			continue;
		if (++k->units > MAX_UNITS) {
			snprintf(why, len, "kernel %s has more than %u compute units", name, MAX_UNITS);
			return -ENOEXEC;
		}
		for (uint32_t a = 0; a < k->nr_args; a++)
			if (in_memory(&k->args[a]))
				k->banks &= connected(&s, count, i, a);
	}
	return err;
}

/* ------------------------------------------------------------------ */
/* Kernels                                                               */

static int number(const struct xml *tag, const char *attribute, uint32_t max, uint32_t *v)
{
	char text[24], *end;
	unsigned long n;

	if (xml_attribute(tag, attribute, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
		return -ENOEXEC;
	n = strtoul(text, &end, 0);
	if (*end || n > max)
		return -ENOEXEC;
	*v = (uint32_t)n;
	return 0;
}

static int take_arg(const struct xml *tag, struct xclbin_kernel *k, uint64_t *seen, char *why,
		    size_t len)
{
	struct xclbin_arg a = { 0 };
	uint32_t id, bit;
	char text[8];

	/* What the tools put there for themselves has no number. */
	if (!xml_attribute(tag, "id", text, sizeof(text)) && !text[0])
		return 0;
	if (number(tag, "id", XCLBIN_MAX_ARGS - 1, &id) ||
	    number(tag, "addressQualifier", XCLBIN_STREAM, &a.space) ||
	    number(tag, "size", UINT32_MAX, &a.size)) {
		snprintf(why, len, "an argument without proper id (below %u), addressQualifier and size",
			 XCLBIN_MAX_ARGS);
		return -ENOEXEC;
	}
	if (xml_attribute(tag, "type", a.type, sizeof(a.type)))
		a.type[0] = '\0';
	bit = id % 64;
	if (seen[id / 64] >> bit & 1) {
		snprintf(why, len, "two arguments with number %" PRIu32, id);
		return -ENOEXEC;
	}
	seen[id / 64] |= 1ull << bit;
	k->args[id] = a;
	if (id >= k->nr_args)
		k->nr_args = id + 1;
	return 0;
}

static int take_args(struct xml *tag, struct xclbin_kernel *k, char *why, size_t len)
{
	uint64_t seen[(XCLBIN_MAX_ARGS + 63) / 64] = { 0 };
	bool none = tag->empty;
	int err = 0;

	while (!err && !none && xml_next(tag) && !xml_is(tag, "/kernel"))
		if (xml_is(tag, "arg"))
			err = take_arg(tag, k, seen, why, len);
	for (uint32_t i = 0; !err && i < k->nr_args; i++) {
		if (seen[i / 64] >> i % 64 & 1)
			continue;
		snprintf(why, len, "no argument with number %" PRIu32, i);
		err = -ENOEXEC;
	}
	return err;
}

static int find_kernel(const struct section *s, const char *name, struct xml *tag)
{
	char text[64];

	xml_open(tag, (const char *)s->data, s->bytes);
	while (xml_next(tag))
		if (xml_is(tag, "kernel") && !xml_attribute(tag, "name", text, sizeof(text)) &&
		    !strcmp(text, name))
			return 0;
	return -ENOENT;
}

int xclbin_find(const struct xclbin *x, const char *name, struct xclbin_kernel *k, char *why,
		size_t len)
{
	struct section s;
	struct units u;
	struct xml tag;
	int err;

	memset(k, 0, sizeof(*k));
	if (!find_section(x, EMBEDDED_METADATA, &s)) {
		snprintf(why, len, "no section EMBEDDED_METADATA: its kernels are not known");
		return -ENOEXEC;
	}
	err = find_kernel(&s, name, &tag);
	if (err) {
		snprintf(why, len, "has no kernel %s", name);
		return err;
	}
	err = take_args(&tag, k, why, len);
	if (!err)
		err = open_units(x, &u, why, len);
	if (!err)
		err = find_connections(x, &u, name, k, why, len);
	if (!err && !k->units) {
		snprintf(why, len, "has no compute unit of kernel %s", name);
		err = -ENOENT;
	}
	return err;
}
