/* SPDX-License-Identifier: MIT */
/*
 * xclbin_write.h - .xclbin files for tests, without the vendor's tools
 *
 * What XRT needs of one: compute units, banks of memory, what is connected to what, and
 * the description of the kernels.  No circuit is in it: it is for the noop shim.
 *
 * A kernel is "NAME UNITS ARGUMENTS", and an argument one of
 *
 *	G0, G1...	in memory, connected to that bank
 *	c s u U i	scalar: char, short, uint, ulong, int
 *	f d		float, double
 *	p		"int*" as a scalar, which there should not be
 */
#ifndef ARAX_SELFTESTS_UNIT_XCLBIN_WRITE_H
#define ARAX_SELFTESTS_UNIT_XCLBIN_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xrt/xclbin.h>

#define XCLBIN_BANKS	2
#define XCLBIN_BANK_KB	(64u << 10)

struct xclbin_out {
	uint8_t *data;
	size_t bytes;
	uint32_t sections;
};

static inline void xclbin_die(const char *why)
{
	fprintf(stderr, "xclbin: %s\n", why);
	abort();
}

static inline void xclbin_add(struct xclbin_out *o, uint32_t kind, const void *data, size_t bytes)
{
	struct axlf_section_header h = { .m_sectionKind = kind, .m_sectionSize = bytes };
	size_t at = (o->bytes + 7) / 8 * 8;

	o->data = realloc(o->data, at + bytes);
	if (!o->data)
		xclbin_die("no memory");
	memset(o->data + o->bytes, 0, at - o->bytes);
	memcpy(o->data + at, data, bytes);
	o->bytes = at + bytes;
	h.m_sectionOffset = at;
	memcpy(o->data + offsetof(struct axlf, m_sections) + o->sections++ * sizeof(h), &h,
	       sizeof(h));
}

/* What the sections are made of. */
struct xclbin_parts {
	struct ip_layout *ips;
	struct connectivity *wires;
	FILE *xml;
};

static inline void xclbin_wire(struct xclbin_parts *p, int arg, int unit, int bank)
{
	struct connection c = { arg, unit, bank };
	int n = p->wires->m_count++;

	p->wires = realloc(p->wires, sizeof(*p->wires) + (size_t)(n + 1) * sizeof(c));
	if (!p->wires)
		xclbin_die("no memory");
	p->wires->m_connection[n] = c;
}

static inline const char *xclbin_arg(struct xclbin_parts *p, const char *text, int nr, int first,
				     int units)
{
	static const struct { char letter; int size; const char *type; } kinds[] = {
		{ 'c', 1, "char" }, { 's', 2, "short" }, { 'i', 4, "int" }, { 'u', 4, "uint" },
		{ 'U', 8, "unsigned long" }, { 'f', 4, "float" }, { 'd', 8, "double" },
		{ 'p', 8, "int*" }, { 'G', 8, "int*" },
	};
	size_t k = 0;

	while (k < sizeof(kinds) / sizeof(kinds[0]) && kinds[k].letter != *text)
		k++;
	if (k == sizeof(kinds) / sizeof(kinds[0]))
		xclbin_die("bad argument");
	fprintf(p->xml, "<arg name=\"a%d\" addressQualifier=\"%d\" id=\"%d\" port=\"%s\" size=\"0x%x\" offset=\"0x%x\" hostOffset=\"0x0\" hostSize=\"0x%x\" type=\"%s\"/>\n",
		nr, *text == 'G', nr, *text == 'G' ? "M_AXI_GMEM" : "S_AXI_CONTROL", kinds[k].size,
		0x10 + 12 * nr, kinds[k].size, kinds[k].type);
	if (*text++ != 'G')
		return text;
	for (int i = 0; i < units; i++)
		xclbin_wire(p, nr, first + i, *text - '0');
	return text + 1;
}

static inline void xclbin_kernel_add(struct xclbin_parts *p, const char *spec)
{
	int first = p->ips->m_count, units, nr = 0;
	char name[20], args[80] = "";

	if (sscanf(spec, "%19s %d %79s", name, &units, args) < 2)
		xclbin_die("bad kernel");
	p->ips = realloc(p->ips, sizeof(*p->ips) + (size_t)(first + units) * sizeof(struct ip_data));
	if (!p->ips)
		xclbin_die("no memory");
	fprintf(p->xml, "<kernel name=\"%s\" language=\"c\" type=\"pl\" hwControlProtocol=\"ap_ctrl_hs\">\n",
		name);
	for (const char *a = args; *a; nr++)
		a = xclbin_arg(p, a, nr, first, units);
	for (int i = 0; i < units; i++) {
		struct ip_data ip = {
			.m_type = IP_KERNEL, .properties = AP_CTRL_HS << IP_CONTROL_SHIFT | 1,
			.m_base_address = 0x1800000 + 0x10000 * (uint64_t)(first + i),
		};

		snprintf((char *)ip.m_name, sizeof(ip.m_name), "%.19s:%.19s_%d", name, name, i + 1);
		p->ips->m_ip_data[p->ips->m_count++] = ip;
		fprintf(p->xml, "<instance name=\"%s_%d\"><addrRemap base=\"0x%lx\" port=\"S_AXI_CONTROL\"/></instance>\n",
			name, i + 1, (unsigned long)ip.m_base_address);
	}
	fputs("</kernel>\n", p->xml);
}

static inline void xclbin_head(struct xclbin_out *o, uint8_t id, uint32_t sections)
{
	struct axlf a = { .m_signature_length = -1 };

	memcpy(a.m_magic, "xclbin2", sizeof(a.m_magic));
	memset(a.reserved, 0xff, sizeof(a.reserved));
	memset(a.m_header.uuid, id, sizeof(a.m_header.uuid));
	a.m_header.m_numSections = sections;
	o->bytes = sizeof(a) + (sections - 1) * sizeof(struct axlf_section_header);
	o->data = calloc(1, o->bytes);
	if (!o->data)
		xclbin_die("no memory");
	memcpy(o->data, &a, sizeof(a));
}

/* To be freed; @id is all bytes of its uuid. */
static inline uint8_t *xclbin_write(uint8_t id, const char *const *kernels, int nr, size_t *bytes)
{
	struct xclbin_parts p = { .ips = calloc(1, sizeof(*p.ips)),
				  .wires = calloc(1, sizeof(*p.wires)) };
	struct { struct mem_topology t; struct mem_data more[XCLBIN_BANKS]; } mem = { 0 };
	struct xclbin_out o = { 0 };
	uint64_t length;
	size_t xml_bytes;
	char *xml;

	p.xml = open_memstream(&xml, &xml_bytes);
	if (!p.xml || !p.ips || !p.wires)
		xclbin_die("no memory");
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- <kernel name=\"no\"> -->\n<project name=\"test\"><platform vendor=\"arax\" name=\"test\"><device name=\"fpga0\"><core name=\"OCL_REGION_0\" type=\"clc_region\">\n",
	      p.xml);
	for (int i = 0; i < nr; i++)
		xclbin_kernel_add(&p, kernels[i]);
	fputs("</core></device></platform></project>\n", p.xml);
	fclose(p.xml);
	mem.t.m_count = XCLBIN_BANKS;
	for (int i = 0; i < XCLBIN_BANKS; i++) {
		struct mem_data m = { .m_type = MEM_DDR4, .m_used = 1, .m_size = XCLBIN_BANK_KB,
				      .m_base_address = (uint64_t)i << 34 };

		snprintf((char *)m.m_tag, sizeof(m.m_tag), "bank%d", i);
		memcpy((char *)&mem + offsetof(struct mem_topology, m_mem_data) +
		       (size_t)i * sizeof(m), &m, sizeof(m));
	}
	xclbin_head(&o, id, 4);
	xclbin_add(&o, IP_LAYOUT, p.ips, offsetof(struct ip_layout, m_ip_data) +
		   (size_t)p.ips->m_count * sizeof(struct ip_data));
	xclbin_add(&o, MEM_TOPOLOGY, &mem, offsetof(struct mem_topology, m_mem_data) +
		   XCLBIN_BANKS * sizeof(struct mem_data));
	xclbin_add(&o, CONNECTIVITY, p.wires, offsetof(struct connectivity, m_connection) +
		   (size_t)p.wires->m_count * sizeof(struct connection));
	xclbin_add(&o, EMBEDDED_METADATA, xml, xml_bytes);
	length = o.bytes;
	memcpy(o.data + offsetof(struct axlf, m_header.m_length), &length, sizeof(length));
	free(xml);
	free(p.ips);
	free(p.wires);
	*bytes = o.bytes;
	return o.data;
}

static inline int xclbin_save(const char *path, uint8_t id, const char *const *kernels, int nr)
{
	size_t bytes;
	uint8_t *data = xclbin_write(id, kernels, nr, &bytes);
	FILE *f = fopen(path, "wb");
	int err = !f || fwrite(data, 1, bytes, f) != bytes;

	free(data);
	return (f && fclose(f)) || err ? -1 : 0;
}

#endif /* ARAX_SELFTESTS_UNIT_XCLBIN_WRITE_H */
