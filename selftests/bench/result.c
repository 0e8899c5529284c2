// SPDX-License-Identifier: MIT
/* What a bench says, for people and as JSON. */
#include "result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "place.h"

static const char *const bar_names[] = {
	[BAR_NONE] = "none", [BAR_RATIO] = "ratio", [BAR_VALUE] = "value", [BAR_P99] = "p99",
};

/* JSON with more digits than were measured only looks exact. */
static json_t *number(double v)
{
	double scale;

	if (v == 0 || !isfinite(v))
		return json_real(0);
	scale = pow(10, 3 - floor(log10(fabs(v))));
	return json_real(round(v * scale) / scale);
}

/* What there is none of, or wasn't measured. */
static json_t *known(double v)
{
	return v == 0 || !isfinite(v) ? json_null() : number(v);
}

void part_measured(struct part *p, const struct measure *value, const struct measure *floor)
{
	size_t i;

	p->value = measure_p50(value);
	p->p99 = measure_p99(value);
	p->floor = floor ? measure_p50(floor) : 0;
	p->rounds = json_array();
	for (i = 0; i < value->rounds; i++)
		json_array_append_new(p->rounds, number(value->p50[i]));
}

void part_rate(struct part *p, const struct measure *value, double bytes)
{
	size_t i;

	p->unit = "GB/s";
	p->at_least = 1;
	p->value = p->value > 0 ? bytes / p->value : 0;
	p->p99 = p->p99 > 0 ? bytes / p->p99 : 0;
	p->floor = p->floor > 0 ? bytes / p->floor : 0;
	json_array_clear(p->rounds);
	for (i = 0; i < value->rounds; i++)
		json_array_append_new(p->rounds, number(bytes / value->p50[i]));
}

static void machine(json_t *result)
{
	char line[256], model[128] = "unknown", load[32] = "";
	struct utsname u;
	char *colon;
	FILE *f;

	uname(&u);
	f = fopen("/proc/cpuinfo", "r");
	while (f && fgets(line, sizeof(line), f)) {
		colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) || !colon)
			continue;
		snprintf(model, sizeof(model), "%.120s", colon + 2);
		model[strcspn(model, "\n")] = '\0';
		break;
	}
	if (f)
		fclose(f);
	f = fopen("/proc/loadavg", "r");
	if (f && fscanf(f, "%31s", load) != 1)
		load[0] = '\0';
	if (f)
		fclose(f);
	json_object_set_new(result, "machine",
			    json_pack("{s:s,s:s,s:i,s:[i,i],s:s}", "cpu", model, "kernel", u.release,
				      "cpus", place_ncpus, "pinned_cpus", place_cpu[0],
				      place_cpu[1], "load_before", load));
}

json_t *result_new(const char *name, const char *link)
{
	json_t *result = json_object();

	json_object_set_new(result, "name", json_string(name));
	json_object_set_new(result, "link", json_string(link));
	machine(result);
	json_object_set_new(result, "peers", json_object());
	json_object_set_new(result, "parts", json_array());
	/* As long as no part has a bar. */
	json_object_set_new(result, "bar", json_null());
	json_object_set_new(result, "met", json_null());
	return result;
}

void result_part(json_t *result, const struct part *p)
{
	json_t *o = json_object(), *parts = json_object_get(result, "parts");
	double ratio = p->floor ? p->value / p->floor : 0, figure;
	json_t *all;
	int met;

	figure = p->of == BAR_RATIO ? ratio : p->of == BAR_P99 ? p->p99 : p->value;
	met = p->at_least ? figure >= p->bar : figure <= p->bar;
	/* No floor, no ratio: a bar that was not looked at is not met. */
	if (p->of == BAR_RATIO && !p->floor)
		met = 0;
	json_object_set_new(o, "unit", json_string(p->unit));
	json_object_set_new(o, "value", number(p->value));
	json_object_set_new(o, "p99", known(p->p99));
	json_object_set_new(o, "floor", known(p->floor));
	json_object_set_new(o, "ratio", known(ratio));
	json_object_set_new(o, "bar", p->of == BAR_NONE ? json_null() : number(p->bar));
	json_object_set_new(o, "bar_of", json_string(bar_names[p->of]));
	json_object_set_new(o, "bar_is", json_string(p->at_least ? "at least" : "at most"));
	json_object_set_new(o, "met", p->of == BAR_NONE ? json_null() : json_boolean(met));
	if (p->rounds)
		json_object_set_new(o, "rounds", p->rounds);
	/* That of all parts that have one. */
	all = json_incref(json_object_get(result, "met"));
	if (!json_array_size(parts))
		json_object_update(result, o);
	if (p->of != BAR_NONE && !json_is_false(all))
		json_object_set_new(result, "met", json_boolean(met));
	else
		json_object_set(result, "met", all);
	json_decref(all);
	json_object_set_new(o, "name", json_string(p->name));
	json_array_append_new(parts, o);
}

void result_peer(json_t *result, const char *name, double ns)
{
	json_object_set_new(json_object_get(result, "peers"), name, number(ns));
}

void result_note(json_t *result, const char *name, const char *text)
{
	json_object_set_new(result, name, json_string(text));
}

void result_int(json_t *result, const char *name, long value)
{
	json_object_set_new(result, name, json_integer(value));
}

static double real(const json_t *o, const char *name)
{
	return json_number_value(json_object_get(o, name));
}

static const char *string(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s ? s : "";
}

static void print_text(json_t *result)
{
	const char *key;
	json_t *part, *v;
	size_t i;

	printf("%s (%s link)\n", string(result, "name"), string(result, "link"));
	if (*string(result, "skipped"))
		printf("  skipped: %s\n", string(result, "skipped"));
	json_array_foreach(json_object_get(result, "parts"), i, part) {
		printf("  %-26s %10.4g %s", string(part, "name"), real(part, "value"),
		       string(part, "unit"));
		if (real(part, "p99") != 0)
			printf(", p99 %.4g", real(part, "p99"));
		if (real(part, "floor") != 0)
			printf(", floor %.4g, ratio %.3g", real(part, "floor"), real(part, "ratio"));
		if (strcmp(string(part, "bar_of"), "none"))
			printf("; %s %s %.4g: %s", string(part, "bar_of"), string(part, "bar_is"),
			       real(part, "bar"),
			       json_is_true(json_object_get(part, "met")) ? "met" : "MISSED");
		putchar('\n');
	}
	json_object_foreach(json_object_get(result, "peers"), key, v)
		printf("    peer %-28s %10.4g\n", key, json_number_value(v));
	json_object_foreach(result, key, v) {
		if (json_is_string(v) && !strncmp(key, "note_", 5))
			printf("    %s: %s\n", key + 5, json_string_value(v));
	}
}

void result_print(json_t *result, int json)
{
	if (json) {
		json_dumpf(result, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
		putchar('\n');
	} else {
		print_text(result);
	}
	fflush(stdout);
	json_decref(result);
}
