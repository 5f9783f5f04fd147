"""Reads a trace of `millrace train --trace` as strictly as a viewer could, puts its spans into
SQLite tables, and asks them what the run waited for.

    trace_queries.py FILE           prints one JSON object: tracks, names, counters, the slow part
"""

import gzip
import json
import sqlite3
import sys
from collections import defaultdict

# Parts of a step, and stages of the input, by the names of their spans.
STEP_PARTS = ("wait", "forward", "backward", "reduce", "update")
STAGES = ("read", "merge", "decode", "deliver")


def fail(message):
    raise SystemExit(f"not a trace: {message}")


def no_constant(text):
    fail(f"{text} is not JSON")


def unique(pairs):
    if len({name for name, _ in pairs}) < len(pairs):
        fail(f"an object has a name twice: {[name for name, _ in pairs]}")
    return dict(pairs)


def load(path):
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
    with opened as file:
        return json.load(file, parse_constant=no_constant, object_pairs_hook=unique)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_event(event):
    if not isinstance(event.get("name"), str) or not isinstance(event.get("pid"), int):
        fail(f"name or pid: {event}")
    kind = event.get("ph")
    if kind == "M":
        if event["name"] not in ("process_name", "thread_name") or not event["args"]["name"]:
            fail(f"metadata: {event}")
        return
    if kind not in ("X", "C") or not is_number(event.get("ts")) or event["ts"] < 0:
        fail(f"kind or time: {event}")
    if kind == "C" and not all(map(is_number, event["args"].values())):
        fail(f"a counter's value: {event}")
    if kind == "X" and not (is_number(event.get("dur")) and event["dur"] >= 0
                            and isinstance(event.get("tid"), int)):
        fail(f"a span: {event}")


def check_nesting(spans):
    """On a track, spans lie apart or one within the other, to the nanosecond."""
    tracks = defaultdict(list)
    for span in spans:
        begin = round(1000 * span["ts"])
        tracks[span["pid"], span["tid"]].append((begin, begin + round(1000 * span["dur"]), span))
    for track in tracks.values():
        open_spans = []
        for begin, end, span in sorted(track, key=lambda one: (one[0], -one[1])):
            while open_spans and open_spans[-1][1] <= begin:
                open_spans.pop()
            if open_spans and end > open_spans[-1][1] + 1:
                fail(f"{span} crosses {open_spans[-1][2]}")
            open_spans.append((begin, end, span))


def check(trace):
    if set(trace) != {"displayTimeUnit", "otherData", "traceEvents"}:
        fail(f"the outermost names: {set(trace)}")
    for event in trace["traceEvents"]:
        check_event(event)
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    check_nesting(spans)
    named = {(event["pid"], event["tid"]) for event in trace["traceEvents"]
             if event["name"] == "thread_name"}
    nameless = {(span["pid"], span["tid"]) for span in spans} - named
    if nameless:
        fail(f"threads without a name: {nameless}")


def tables(trace):
    base = sqlite3.connect(":memory:")
    base.execute("create table thread (pid, tid, name)")
    base.execute("create table span (pid, tid, name, ts, dur, args)")
    base.execute("create table counter (pid, name, ts, value)")
    for event in trace["traceEvents"]:
        if event["name"] == "thread_name":
            base.execute("insert into thread values (?, ?, ?)",
                         (event["pid"], event["tid"], event["args"]["name"]))
        elif event["ph"] == "X":
            base.execute("insert into span values (?, ?, ?, ?, ?, ?)",
                         (event["pid"], event["tid"], event["name"], event["ts"], event["dur"],
                          json.dumps(event["args"])))
        elif event["ph"] == "C":
            base.execute("insert into counter values (?, ?, ?, ?)",
                         (event["pid"], event["name"], event["ts"], event["args"]["value"]))
    return base


def seconds_of(base, names):
    rows = base.execute("select name, sum(dur) / 1e6 from span where name in (%s) group by name"
                        % ",".join("?" * len(names)), names)
    return dict(rows.fetchall())


def busiest_stage(base):
    """Of the input: the one whose busy threads are nearest to all that there are."""
    rows = base.execute("""
        select name, sum(dur) / (count(distinct pid || '/' || tid)) as per_thread
        from span where name in ('read', 'merge', 'decode', 'deliver')
        group by name order by per_thread desc limit 1""").fetchall()
    return rows[0][0] if rows else ""


def slow_part(base):
    """What the steps spend most of their time on; where that is waiting, the stage to blame."""
    parts = seconds_of(base, STEP_PARTS)
    if not parts:
        return ""
    slowest = max(parts, key=parts.get)
    return busiest_stage(base) if slowest == "wait" else slowest


def main():
    trace = load(sys.argv[1])
    check(trace)
    base = tables(trace)
    print(json.dumps({
        "about": trace["otherData"],
        "spans": dict(base.execute("select name, count(*) from span group by name").fetchall()),
        "threads": sorted({row[0] for row in base.execute("select name from thread")}),
        "counters": sorted({row[0] for row in base.execute("select name from counter")}),
        "processes": base.execute("select count(distinct pid) from span").fetchone()[0],
        "steps": [row[0] for row in base.execute(
            "select distinct json_extract(args, '$.step') from span where name = 'step' "
            "order by 1")],
        "seconds": {**seconds_of(base, STEP_PARTS), **seconds_of(base, STAGES)},
        "slow": slow_part(base),
    }))


main()
