// SPDX-License-Identifier: MIT
/* report.c - what a run was like, for people and for programs */
#include "daemon/sim/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of more devices than this the text shows the first ones, of more tenants those at the ends. */
#define ROWS	16u

/* As it is: times are to the ns, by which runs are compared. */
static void set(json_t *o, const char *key, double v)
{
	json_object_set_new(o, key, json_real(isfinite(v) ? v : 0));
}

static void count(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, json_integer((json_int_t)v));
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The least value that so many of a hundred are not above. */
static double percentile(const double *sorted, uint32_t n, uint32_t percent)
{
	return sorted[((uint64_t)n * percent + 99) / 100 - 1];
}

/*
 * From an application's arrival to the end of its last task.  One that lost tasks was over early
 * because it did less: it is left out, or a policy that loses more would look better.
 */
static json_t *turnaround(const struct scenario *sc, const struct sim_result *r)
{
	json_t *o = json_object();
	double *ms = malloc((sc->work.nr + 1) * sizeof(*ms)), sum = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; ms && i < sc->work.nr; i++) {
		if (r->apps[i].failed)
			continue;
		ms[n] = (double)(r->apps[i].end_ns - sc->work.apps[i].arrive_ns) / 1e6;
		sum += ms[n++];
	}
	if (ms) {
		count(o, "apps", n);
		count(o, "left_out", sc->work.nr - n);
	}
	if (n) {
		qsort(ms, n, sizeof(*ms), by_value);
		set(o, "total", sum);
		set(o, "mean", sum / n);
		set(o, "p50", percentile(ms, n, 50));
		set(o, "p99", percentile(ms, n, 99));
		set(o, "max", ms[n - 1]);
	}
	free(ms);
	return o;
}

/* What a device could have done; one that was lost: until then. */
static double capacity_ns(const struct sim_device *d, const struct sim_result *r)
{
	return (double)(d->lost_ns < r->makespan_ns ? d->lost_ns : r->makespan_ns);
}

static void devices(json_t *o, const struct scenario *sc, const struct sim_result *r)
{
	double total = 0, used = 0, in = 0, out = 0, peer = 0, evicted = 0;
	json_t *list = json_array(), *d;

	for (uint32_t i = 0; i < sc->nr_devices; i++) {
		const struct sim_device_result *dr = &r->devices[i];
		double capacity = capacity_ns(&sc->devices[i], r);

		d = json_pack("{s:s,s:s}", "name", sc->devices[i].name, "kind",
			      sc->kinds[sc->devices[i].kind]);
		set(d, "used", capacity > 0 ? dr->used_ns / capacity : 0);
		count(d, "tasks", dr->tasks);
		count(d, "bytes_in", dr->bytes_in);
		count(d, "bytes_out", dr->bytes_out);
		count(d, "bytes_peer", dr->bytes_peer);
		count(d, "bytes_evicted", dr->evicted);
		count(d, "bytes_peak", dr->peak_bytes);
		json_array_append_new(list, d);
		total += capacity;
		used += dr->used_ns;
		in += (double)dr->bytes_in;
		out += (double)dr->bytes_out;
		peer += (double)dr->bytes_peer;
		evicted += (double)dr->evicted;
	}
	set(o, "used", total > 0 ? used / total : 0);
	count(o, "bytes_in", (uint64_t)in);
	count(o, "bytes_out", (uint64_t)out);
	count(o, "bytes_peer", (uint64_t)peer);
	count(o, "bytes_evicted", (uint64_t)evicted);
	json_object_set_new(o, "devices", list);
}

static void tenants(json_t *o, const struct scenario *sc, const struct sim_result *r)
{
	double all = 0, shared = 0, weight = 0;
	json_t *list = json_array(), *t;

	for (uint32_t i = 0; i < sc->nr_tenants; i++) {
		all += r->tenants[i].used_ns;
		shared += r->tenants[i].shared_ns;
		weight += r->tenants[i].tasks ? sc->tenants[i].weight : 0;
	}
	for (uint32_t i = 0; i < sc->nr_tenants; i++) {
		const struct sim_tenant_result *tr = &r->tenants[i];

		t = json_pack("{s:s,s:i}", "name", sc->tenants[i].name, "weight",
			      (int)sc->tenants[i].weight);
		count(t, "tasks", tr->tasks);
		set(t, "device_ms", tr->used_ns / 1e6);
		set(t, "share", all > 0 ? tr->used_ns / all : 0);
		set(t, "share_while_all_ran", shared > 0 ? tr->shared_ns / shared : 0);
		set(t, "share_due", tr->tasks && weight > 0 ? sc->tenants[i].weight / weight : 0);
		json_array_append_new(list, t);
	}
	set(o, "jain", r->jain);
	json_object_set_new(o, "tenants", list);
}

json_t *report_json(const struct scenario *sc, const char *policy, const struct sim_result *r,
		    const struct sim_bound *bound)
{
	double wall = (double)r->wall_ns / 1e9, best;
	json_t *o = json_object(), *b, *s;
	const char *name;
	uint64_t late = 0;

	json_object_set_new(o, "name", json_string(sc->name));
	json_object_set_new(o, "policy", json_string(policy));
	count(o, "seed", sc->seed);
	count(o, "tasks", r->submitted);
	count(o, "completed", r->completed);
	count(o, "failed", r->failed);
	count(o, "canceled", r->canceled);
	count(o, "rerun", r->rerun);
	for (uint32_t i = 0; i < sc->work.nr; i++)
		late += r->apps[i].late;
	count(o, "late", late);
	count(o, "ahead", r->ahead);
	count(o, "left", r->left);
	count(o, "bytes_lost", r->lost_bytes);
	set(o, "makespan_ms", (double)r->makespan_ns / 1e6);
	if (bound) {
		best = (double)sim_bound_best(bound, &name);
		b = json_object();
		set(b, "path_ms", (double)bound->path_ns / 1e6);
		set(b, "area_ms", (double)bound->area_ns / 1e6);
		set(b, "mixed_ms", (double)bound->mixed_ns / 1e6);
		set(b, "ways_ms", (double)bound->ways_ns / 1e6);
		json_object_set_new(b, "best", json_string(name));
		set(b, "ratio", best > 0 ? (double)r->makespan_ns / best : 0);
		json_object_set_new(o, "bound", b);
	}
	json_object_set_new(o, "turnaround_ms", turnaround(sc, r));
	devices(o, sc, r);
	tenants(o, sc, r);
	s = json_object();
	set(s, "seconds", wall);
	set(s, "cpu_seconds", (double)r->cpu_ns / 1e9);
	set(s, "tasks_per_s", wall > 0 ? (double)r->submitted / wall : 0);
	set(s, "pick_seconds", (double)r->pick_ns / 1e9);
	count(s, "events", r->events);
	count(s, "pick_calls", r->tries);
	json_object_set_new(o, "simulation", s);
	return o;
}

/* ------------------------------------------------------------------ */

static double real(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static const char *string(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static void print_devices(const json_t *list, FILE *out)
{
	size_t n = json_array_size(list);

	fprintf(out, "\n  %-16s %-12s %8s %6s %12s %12s %12s %12s\n", "device", "kind", "tasks",
		"used", "MB in", "MB out", "MB of peers", "MB evicted");
	for (size_t i = 0; i < n && i < ROWS; i++) {
		const json_t *d = json_array_get(list, i);

		fprintf(out, "  %-16s %-12s %8.0f %5.1f%% %12.1f %12.1f %12.1f %12.1f\n", string(d, "name"),
			string(d, "kind"), real(d, "tasks"), 100 * real(d, "used"),
			real(d, "bytes_in") / 1e6, real(d, "bytes_out") / 1e6,
			real(d, "bytes_peer") / 1e6, real(d, "bytes_evicted") / 1e6);
	}
	if (n > ROWS)
		fprintf(out, "  and %zu more: --json has them all\n", n - ROWS);
}

static void print_tenant(const json_t *t, FILE *out)
{
	fprintf(out, "  %-16s %8.0f %8.0f %12.3f %7.2f%% %13.2f%% %7.2f%%\n", string(t, "name"),
		real(t, "weight"), real(t, "tasks"), real(t, "device_ms"), 100 * real(t, "share"),
		100 * real(t, "share_while_all_ran"), 100 * real(t, "share_due"));
}

/* Of what was due to it, while all ran; without tasks nothing was. */
static double served(const json_t *t)
{
	double due = real(t, "share_due");

	return due > 0 ? real(t, "share_while_all_ran") / due : 1;
}

static int by_service(const void *a, const void *b)
{
	const json_t *x = *(const json_t *const *)a, *y = *(const json_t *const *)b;
	double p = served(x), q = served(y);

	return (p < q) - (p > q);
}

/* Very many: those that had most and least of what was due to them. */
static void print_ends(const json_t **sorted, size_t n, FILE *out)
{
	size_t i;

	for (i = 0; i < ROWS / 2; i++)
		print_tenant(sorted[i], out);
	fprintf(out, "  and %zu between them: p1 %.2f, p50 %.2f, p99 %.2f of all had of what was due while all ran; --json has them all\n",
		n - ROWS, served(sorted[n - 1 - (n - 1) / 100]), served(sorted[n / 2]),
		served(sorted[(n - 1) / 100]));
	for (i = n - ROWS / 2; i < n; i++)
		print_tenant(sorted[i], out);
}

static void print_tenants(const json_t *list, FILE *out)
{
	size_t n = json_array_size(list), i;
	const json_t **sorted = calloc(n + 1, sizeof(*sorted));

	fprintf(out, "\n  %-16s %8s %8s %12s %8s %14s %8s\n", "tenant", "weight", "tasks",
		"device ms", "share", "while all ran", "due");
	for (i = 0; sorted && i < n; i++)
		sorted[i] = json_array_get(list, i);
	if (sorted && n > ROWS) {
		qsort(sorted, n, sizeof(*sorted), by_service);
		print_ends(sorted, n, out);
	}
	for (i = 0; sorted && n <= ROWS && i < n; i++)
		print_tenant(sorted[i], out);
	free(sorted);
}

static void print_turnaround(const json_t *t, FILE *out)
{
	double apps = real(t, "apps"), left_out = real(t, "left_out");

	if (apps == 0) {
		fprintf(out, "  turnaround   none: of all %.0f applications tasks failed or were canceled\n",
			left_out);
		return;
	}
	fprintf(out, "  turnaround   mean %.3f ms, p50 %.3f, p99 %.3f, max %.3f", real(t, "mean"),
		real(t, "p50"), real(t, "p99"), real(t, "max"));
	if (left_out > 0)
		fprintf(out, "; without %.0f of %.0f applications, whose tasks failed or were canceled",
			left_out, apps + left_out);
	fprintf(out, "\n");
}

void report_print(const json_t *o, FILE *out)
{
	const json_t *b = json_object_get(o, "bound"), *s = json_object_get(o, "simulation");

	/* Not by way of a double: with another seed it would not be the same run. */
	fprintf(out, "%s: policy %s, seed %lld\n", string(o, "name"), string(o, "policy"),
		(long long)json_integer_value(json_object_get(o, "seed")));
	fprintf(out, "  tasks        %.0f completed, %.0f failed, %.0f canceled, %.0f rerun, %.0f late\n",
		real(o, "completed"), real(o, "failed"), real(o, "canceled"), real(o, "rerun"),
		real(o, "late"));
	fprintf(out, "  makespan     %.3f ms\n", real(o, "makespan_ms"));
	if (b)
		fprintf(out, "  bound        critical path %.3f ms, area %.3f ms, mixed %.3f ms, ways %.3f ms: %.3f times the best, %s\n",
			real(b, "path_ms"), real(b, "area_ms"), real(b, "mixed_ms"),
			real(b, "ways_ms"), real(b, "ratio"), string(b, "best"));
	print_turnaround(json_object_get(o, "turnaround_ms"), out);
	fprintf(out, "  devices      %.1f%% used\n", 100 * real(o, "used"));
	fprintf(out, "  fairness     Jain's index %.4f while all tenants ran\n", real(o, "jain"));
	fprintf(out, "  beside       inputs of %.0f tasks before their lanes, results of %.0f behind them\n",
		real(o, "ahead"), real(o, "left"));
	fprintf(out, "  moved        %.1f MB to devices, %.1f MB back, %.1f MB between them, %.1f MB evicted, %.1f MB lost\n",
		real(o, "bytes_in") / 1e6, real(o, "bytes_out") / 1e6,
		real(o, "bytes_peer") / 1e6, real(o, "bytes_evicted") / 1e6, real(o, "bytes_lost") / 1e6);
	fprintf(out, "  simulation   %.3f s, %.0f tasks/s; %.0f%% of it in sched_pick()\n",
		real(s, "seconds"), real(s, "tasks_per_s"),
		real(s, "seconds") > 0 ? 100 * real(s, "pick_seconds") / real(s, "seconds") : 0);
	print_devices(json_object_get(o, "devices"), out);
	print_tenants(json_object_get(o, "tenants"), out);
}
