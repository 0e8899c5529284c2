// SPDX-License-Identifier: MIT
/* plot.c - a run as an SVG: a line of little boxes a device, as dark as it was used */
#include <errno.h>
#include <stdio.h>

#include "daemon/sim/report.h"

#define WIDTH	1000.0
#define LEFT	110.0
#define TOP	50.0
#define ROW_MAX	18.0
#define HEIGHT	760.0
#define TENANTS	20u

/* Names come from a scenario: they may hold what SVG reads as its own. */
static void text(FILE *f, double x, double y, const char *anchor, const char *s)
{
	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	for (; *s; s++) {
		if (*s == '<')
			fputs("&lt;", f);
		else if (*s == '&')
			fputs("&amp;", f);
		else if (*s == '>')
			fputs("&gt;", f);
		else
			fputc(*s, f);
	}
	fputs("</text>\n", f);
}

static void plot_devices(FILE *f, const struct scenario *sc, const struct sim_result *r,
			 double row)
{
	double bins = (double)r->makespan_ns / (double)r->bin_ns, box;
	uint32_t nr = bins < SIM_BINS ? (uint32_t)bins + 1 : SIM_BINS;

	box = WIDTH / nr;
	for (uint32_t i = 0; i < sc->nr_devices; i++) {
		double y = TOP + i * row;

		if (row >= 10 || i % (uint32_t)(10 / row + 1) == 0)
			text(f, LEFT - 6, y + row / 2 + 4, "end", sc->devices[i].name);
		for (uint32_t k = 0; k < nr; k++) {
			double used = r->devices[i].bins[k] / (double)r->bin_ns;

			if (used >= 0.005)
				fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.2f\" fill-opacity=\"%.2f\"/>\n",
					LEFT + k * box, y, box, row > 3 ? row - 1 : row,
					used < 1 ? used : 1);
		}
	}
}

static void plot_tenants(FILE *f, const struct scenario *sc, const struct sim_result *r, double y)
{
	uint32_t n = sc->nr_tenants < TENANTS ? sc->nr_tenants : TENANTS;
	double all = 0, weight = 0;

	for (uint32_t i = 0; i < sc->nr_tenants; i++) {
		all += r->tenants[i].shared_ns;
		weight += r->tenants[i].tasks ? sc->tenants[i].weight : 0;
	}
	text(f, LEFT, y - 8, "start", "share of each tenant while all ran; the line is what its weight is due");
	for (uint32_t i = 0; i < n && all > 0; i++) {
		double got = r->tenants[i].shared_ns / all * WIDTH;
		double due = r->tenants[i].tasks ? sc->tenants[i].weight / weight * WIDTH : 0;

		text(f, LEFT - 6, y + 11, "end", sc->tenants[i].name);
		fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"12\"/>\n", LEFT, y,
			got);
		fprintf(f, "<path d=\"M%.1f %.1fv14\" stroke=\"#c22\" stroke-width=\"2\"/>\n",
			LEFT + due, y - 1);
		y += 18;
	}
}

int report_plot(const struct scenario *sc, const struct sim_result *r, FILE *f)
{
	uint32_t tenants = sc->nr_tenants < TENANTS ? sc->nr_tenants : TENANTS;
	double row = HEIGHT / sc->nr_devices, bottom;
	char line[200];

	row = row < ROW_MAX ? row : ROW_MAX;
	bottom = TOP + row * sc->nr_devices;
	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#246\">\n",
		WIDTH + LEFT + 30, bottom + 90 + tenants * 18);
	fputs("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", f);
	snprintf(line, sizeof(line), "%s: use of each device, 0 to %.3f ms", sc->name,
		 (double)r->makespan_ns / 1e6);
	text(f, LEFT, 30, "start", line);
	plot_devices(f, sc, r, row);
	plot_tenants(f, sc, r, bottom + 50);
	fputs("</svg>\n", f);
	if (fflush(f))
		return -errno;
	return ferror(f) ? -EIO : 0;
}
