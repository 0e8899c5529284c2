#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""From the benches' JSON to a table for people, and columns for the plots."""

import json
import os
import statistics
import sys

USAGE = """usage: table.py table FOLDER      table.txt and *.dat from FOLDER/{broker,kernel}-*.json
       table.py docs FOLDER       the same for the documentation, what has a bar first
       table.py check NAME FILE  whether FILE has all that bench NAME should say"""

FIELDS = {
    "name": str, "link": str, "value": float, "unit": str, "p99": (float, type(None)),
    "floor": (float, type(None)), "ratio": (float, type(None)), "peers": dict, "bar_of": str,
    "parts": list, "machine": dict,
}
PARTS = {"floors": 1, "null": 3, "depth": 2, "sleep": 4, "handover": 4, "access": 7, "stream": 1, "starpu": 2,
         "simscale": 2, "elastic": 6, "grcuda-sim": 11, "cholesky-sim": 5,
         "grcuda": 15, "overhead": 28, "cholesky": 8, "sharing": 7, "graph": 9, "fair": 7, "rodinia": 11,
         "opencl": 5, "cuda": 20, "outofcore": 9}
# What a bench has besides its parts: the fields of each element.
LISTS = {
    "access": ("rows", ("loop", "bytes", "passes", "buffer_gbs", "private_gbs", "memfd_gbs",
                        "ratio_private", "ratio_memfd", "checked")),
    "grcuda": ("rows", ("program", "size", "tasks", "inferred_ms", "by_hand_ms", "synchronous_ms",
                        "sequential_ms", "ratio_by_hand", "ratio_synchronous", "speedup", "checked")),
    "elastic": ("rows", ("case", "application", "chains", "length", "elastic_ms", "static_ms", "ratio")),
    "simscale": ("rows", ("policy", "devices", "tenants", "tasks_simulated", "tasks", "tasks_per_s",
                          "cpu_s", "wall_s", "pick_s", "makespan_ms")),
    "cholesky": ("rows", ("program", "tile", "order", "tasks", "arax_ms", "arax_longest_ms", "checked")),
    "grcuda-sim": ("rows", ("program", "n", "synchronous_ms", "synchronous_copies_ms", "inferred_ms",
                            "least_ms", "authors_scheduled_ms")),
    "sharing": ("rows", ("case", "application", "alone_per_s", "sliced_per_s", "shared_per_s", "slowdown")),
    "graph": ("rows", ("case", "live_tasks", "live_ranges", "add_ns", "end_ns", "copy_ns", "mib")),
    "fair": ("rows", ("case", "program", "task_us", "should_percent", "got_percent", "tasks")),
    "cholesky-sim": ("rows", ("program", "machine", "tiles", "tasks", "makespan_ms", "bound_ms", "bound",
                              "path_ms", "area_ms", "mixed_ms", "ways_ms", "ratio",
                              "ratio_free_links", "moved_mb")),
    "rodinia": ("rows", ("program", "size", "steps", "tasks", "arax_ms", "native_ms", "cpu_ms",
                         "ratio", "checked")),
    "cuda": ("rows", ("program", "size", "tasks", "arax_ms", "streams_ms", "graph_ms",
                      "synchronous_ms", "ratio_streams", "ratio_graph", "speedup", "checked")),
    "outofcore": ("rows", ("program", "device", "times", "data_mib", "tasks", "arax_ms", "hand_ms",
                           "over_fitting", "hand_over_fitting", "over_hand", "in_mib", "out_mib",
                           "least_mib", "least_this_order_mib", "over_least", "checked")),
    "overhead": ("curve", ("kernel", "length_us", "direct_us", "task_us", "efficiency")),
}
# And other lists.
MORE_LISTS = {
    "grcuda": ("opencl_rows", ("program", "size", "tasks", "inferred_ms", "synchronous_ms",
                               "ratio_synchronous", "speedup", "rounds", "checked")),
    "elastic": ("percentiles", ("seed", "devices", "applications", "elastic_ms", "static_ms", "ratio",
                                "elastic_moved_mb", "static_moved_mb", "elastic_used_percent",
                                "static_used_percent")),
}
# What is judged of them, where there are any, as it is on cores.
CPU_WORST = "beside synchronous, worst"
OPENCL_WORST = f"OpenCL, {CPU_WORST}"
# Who runs the same beside Arax, unless "skipped" or a note says why not.
CHOLESKY_PEERS = {"starpu": "skipped", "openmp": "note_openmp", "sequential": "note_openmp"}


def check(name, path):
    with open(path, encoding="utf-8") as f:
        o = json.load(f)
    # Nothing to measure, and it says why.
    if o.get("name") == name and o.get("parts") == [] and o.get("skipped"):
        return None if o.get("met", True) is None else f"met: {o.get('met')!r} of what was left out"
    for field, kind in FIELDS.items():
        if field not in o or not isinstance(o[field], kind):
            return f"{field}: {o.get(field, 'nothing')!r} is no {getattr(kind, '__name__', 'number, nor null')}"
    if "bar" not in o:
        return "no bar"
    if o["name"] != name:
        return f"name: {o['name']!r}"
    if len(o["parts"]) < PARTS[name]:
        return f"{len(o['parts'])} parts of {PARTS[name]}"
    for lists in (LISTS, MORE_LISTS):
        # A note says why there is no OpenCL.
        if name not in lists or (lists[name][0] == "opencl_rows" and "note_opencl" in o):
            continue
        field, wanted = lists[name]
        if name == "cholesky":
            wanted += tuple(f"{peer}_{what}" for peer, why in CHOLESKY_PEERS.items() if why not in o
                            for what in ("ms", "longest_ms"))
        missing = [w for e in o.get(field, [{}]) for w in wanted if not e.get(w)]
        if missing or not o.get(field):
            return f"{field}: no {missing[0] if missing else 'element'}"
    bar_of = {part["name"]: part["bar_of"] for part in o["parts"]}
    if "opencl_rows" in o and bar_of.get(OPENCL_WORST) != bar_of[CPU_WORST]:
        return f"{OPENCL_WORST} is not judged as {CPU_WORST}"
    bars = [part["met"] for part in o["parts"] if part["bar_of"] != "none"]
    if o.get("met", True) is not (all(bars) if bars else None):
        return f"met: {o.get('met')!r}, of parts {bars}"
    for part in o["parts"]:
        if part["met"] not in ((None,) if part["bar_of"] == "none" else (True, False)):
            return f"part {part['name']}: met {part['met']!r} with bar_of {part['bar_of']}"
        idle = part["name"] == "idle"
        if part["value"] < 0 or (part["value"] == 0 and not idle):
            return f"part {part['name']}: value {part['value']}"
        if 0 in (part["p99"], part["floor"], part["ratio"]) or (part["floor"] is None) != (part["ratio"] is None):
            return f"part {part['name']}: what is not known is null"
        if part["floor"] and abs(part["ratio"] - part["value"] / part["floor"]) > 0.01 * part["ratio"]:
            return f"part {part['name']}: the ratio is not value over floor"
    return None


def figure(v):
    if v is None:
        return "-"
    return f"{v:,.0f}" if v >= 1000 else f"{v:.3g}"


def verdict(part):
    if part["bar_of"] == "none":
        return "stated"
    sign = ">=" if part["bar_is"] == "at least" else "<="
    return f"{part['bar_of']} {sign} {figure(part['bar'])}: {'met' if part['met'] else 'MISSED'}"


def curves(f, rows):
    """A block for each program and machine: tiles and ratio."""
    blocks = {}
    for r in rows:
        blocks.setdefault(f'"{r["program"]}, {r["machine"]}"\n', []).append(f'{r["tiles"]} {r["ratio"]}\n')
    f.write("\n\n".join(case + "".join(lines) for case, lines in blocks.items()))


def elastic(f, rows, percentiles):
    """Mean turnarounds of each case, and in a second block how the mixes' ratios are spread."""
    for case in dict.fromkeys(r["case"] for r in rows):
        of = [r for r in rows if r["case"] == case]
        means = [sum(r[way] for r in of) / len(of) for way in ("elastic_ms", "static_ms")]
        f.write(f'"{case}" {means[0]} {means[1]} {means[1] / means[0]}\n')
    f.write("\n\n")
    for p in percentiles:
        f.write(f'{p["ratio"]} {p["percent"]}\n')


def cholesky(f, rows):
    """Median and longest of each, and what Arax takes over StarPU; 0 of who was not there."""
    for r in rows:
        f.write(f'"{r["program"]} {r["tile"]}"')
        for who in ("arax", *CHOLESKY_PEERS):
            f.write(f' {r.get(who + "_ms", 0)} {r.get(who + "_longest_ms", 0)}')
        f.write(f' {r.get("ratio", 0)}\n')


def columns(folder):
    """The elements as columns for the plots: grcuda.dat and others, of the broker link."""
    for name, (field, _) in LISTS.items():
        path = os.path.join(folder, f"broker-{name}.json")
        o = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                o = json.load(f)
        elements = o.get(field, [])
        # It was left out: no columns and no plot, not those of another run either.
        if not elements:
            for old in (f"{name}.dat", f"{name}.png"):
                if os.path.exists(os.path.join(folder, old)):
                    os.remove(os.path.join(folder, old))
            continue
        with open(os.path.join(folder, f"{name}.dat"), "w", encoding="utf-8") as f:
            last = None
            if name == "cholesky-sim":
                curves(f, elements)
                continue
            if name == "elastic":
                elastic(f, elements, o["percentiles"])
                continue
            if name == "cholesky":
                cholesky(f, elements)
                continue
            for e in elements:
                if name in ("grcuda", "cuda"):
                    others = ("by_hand", "sequential") if name == "grcuda" else ("streams", "graph")
                    f.write(f'"{e["program"]} {e["size"]:,}" {e["speedup"]}')
                    f.write("".join(f' {e["synchronous_ms"] / e[way + "_ms"]}' for way in others) + "\n")
                    continue
                if name == "grcuda-sim":
                    f.write(e["program"])
                    for way in ("inferred", "least", "authors_scheduled", "synchronous_copies"):
                        f.write(f' {e["synchronous_ms"] / e[way + "_ms"]}')
                    f.write("\n")
                    continue
                if name == "simscale":
                    # pick_s is of the time that passed, as is wall_s.
                    us, picks = 1e6 * e["cpu_s"] / e["tasks_simulated"], e["pick_s"] / e["wall_s"]
                    f.write(f'{e["policy"]} {us * picks} {us * (1 - picks)}\n')
                    continue
                if name == "access":
                    f.write(f'"{e["loop"]}" {e["ratio_private"]} {e["ratio_memfd"]}\n')
                    continue
                if name == "rodinia":
                    f.write(f'{e["program"]} {e["ratio"]} {e["cpu_ms"] / e["native_ms"]}\n')
                    continue
                if name == "graph":
                    f.write(f'"{e["case"]}" {e["add_ns"]} {e["end_ns"]} {e["copy_ns"]}\n')
                    continue
                if name == "fair":
                    f.write(f'"{e["case"]}: {e["program"]}" {e["should_percent"]} {e["got_percent"]}\n')
                    continue
                if name == "sharing":
                    f.write(f'"{e["case"]}: {e["application"]}" {e["alone_per_s"]} {e["sliced_per_s"]} '
                            f'{e["shared_per_s"]}\n')
                    continue
                if name == "outofcore":
                    f.write(f'"{e["program"]} {e["device"]} {e["times"]:g}x" {e["over_fitting"]} '
                            f'{e["hand_over_fitting"]} {e["over_least"]}\n')
                    continue
                if e["kernel"] != last:
                    f.write(("\n\n" if last else "") + f'"{e["kernel"]}"\n')
                    last = e["kernel"]
                f.write(f'{e["direct_us"]} {e["efficiency"]}\n')


def results(folder):
    for name in sorted(os.listdir(folder)):
        # Others are of the parts' own benches (core.json, sched.json, memory.json).
        if not name.endswith(".json") or not name.startswith(("broker-", "kernel-")):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            yield json.load(f)


def cells(o, part):
    floor = part["floor"]
    return (o["name"], o["link"].replace("none", "-"), part["name"], f"{figure(part['value'])} {part['unit']}",
            figure(part["p99"]), figure(floor), f"{part['ratio']:.4g}" if floor else "-")


def markdown(*rows):
    print("\n".join(f"| {' | '.join(r)} |" for r in rows))


def docs(folder):
    """What has a bar, and folded what has none, and the peers."""
    head, all_of = ("bench", "link", "figure", "value", "p99", "floor", "ratio"), list(results(folder))
    parts = [(o, part) for o in all_of for part in o["parts"]]
    markdown((*head, "bar"), ["---"] * 8, *[
        (*cells(o, part), verdict(part).replace("MISSED", "**missed**"))
        for o, part in parts if part["bar_of"] != "none"])
    print("\n<details><summary>What has no bar: curves, programs and sizes one by one, the kernel link, ...</summary>\n")
    markdown(head, ["---"] * 7, *[cells(o, part) for o, part in parts if part["bar_of"] == "none"])
    print("\n</details>\n<details><summary>Peers, and what else was measured beside them</summary>\n")
    markdown(("bench", "link", "peer", "value"), ["---"] * 4, *[
        (o["name"], o["link"].replace("none", "-"), peer, figure(value))
        for o in all_of for peer, value in o["peers"].items()])
    print("\n</details>")


def table(folder):
    rows = [("bench", "link", "figure", "ratio", "value", "p99", "floor", "unit", "bar")]
    parts, rounds = [], []
    for o in results(folder):
        for part in o["parts"]:
            rows.append((o["name"], o["link"], part["name"],
                         f"{part['ratio']:.2f}" if part["floor"] else "-", figure(part["value"]),
                         figure(part["p99"]), figure(part["floor"]),
                         part["unit"], verdict(part)))
            label = f"{o['name']}: {part['name']} ({o['link']})"
            if part["floor"] and part["bar_of"] == "ratio":
                parts.append((label, part["ratio"], part["bar"], int(part["met"])))
            of = [v for v in part.get("rounds", []) if v > 0]
            if of:
                rounds.append((label, [v / statistics.median(of) for v in of]))
        if not o["parts"]:
            rows.append((o["name"], o["link"], o.get("skipped", ""), "", "", "", "", "", ""))
        for peer, value in o["peers"].items():
            rows.append((o["name"], o["link"], f"  peer: {peer}", "", figure(value), "", "", "", ""))
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    with open(os.path.join(folder, "table.txt"), "w", encoding="utf-8") as f:
        for r in rows:
            line = "  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip()
            f.write(line + "\n")
            print(line)
    columns(folder)
    with open(os.path.join(folder, "ratios.dat"), "w", encoding="utf-8") as f:
        for label, ratio, bar, met in parts:
            f.write(f'"{label}" {ratio} {bar} {met}\n')
    with open(os.path.join(folder, "rounds.dat"), "w", encoding="utf-8") as f:
        for i, (label, of) in enumerate(rounds):
            for v in of:
                f.write(f'"{label}" {i} {v}\n')


def main():
    if sys.argv[1:2] == ["--help"]:
        print(USAGE)
        return 0
    if len(sys.argv) == 3 and sys.argv[1] == "table":
        table(sys.argv[2])
        return 0
    if len(sys.argv) == 3 and sys.argv[1] == "docs":
        docs(sys.argv[2])
        return 0
    if len(sys.argv) == 4 and sys.argv[1] == "check":
        error = check(sys.argv[2], sys.argv[3])
        if error:
            print(error, file=sys.stderr)
        return 1 if error else 0
    print(USAGE, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
