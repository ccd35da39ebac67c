"""The keys that programs read: of answers and of lines of improvements, for schedules and for plans."""

from __future__ import annotations

import json
import re

import pytest
from plan_graphs import u_graph

COMMON = """graph nodes edges formulation solver solver_version driver order max_computations baseline_peak
    baseline_duration status reason interrupted tdi_percent gap_percent valid checks seconds trace intervals"""
SCHEDULE = """strategy precedence index budget fixed_memory claim notes peak duration duration_bound shortfall racers
    sequence"""
PLAN = """form peaks duration energy traffic recomputations copies bound plan goal platform"""
SCHEDULE_LINE = "type seconds phase peak duration bound recomputations source"
PLAN_LINE = "type seconds phase peaks duration energy traffic bound source"
GRAPH = u_graph()
PAGING = ("--paging", "--page-out-time", "1")
DEVICES = ("--device", "gpu=6", "--device", "cpu=30:2")


@pytest.mark.parametrize(
    ("options", "answer", "own", "line"),
    [
        (("--budget", 6), "sequence", SCHEDULE, SCHEDULE_LINE),
        (("--budget", 6, *PAGING), "plan", PLAN, PLAN_LINE),
        (DEVICES, "plan", PLAN, PLAN_LINE),
    ],
)
def test_json_keys_are_as_documented(command, graph, options, answer, own, line):
    searching = ("--search", "only", "--time-limit", 3, "--threads", 1, "--seed", 0)
    status, out, err = command("solve", graph, *options, *searching, "--json-stream")
    assert status == 0, err
    *lines, last = map(json.loads, out.splitlines())
    assert {*COMMON.split(), *own.split(), "type"} <= last.keys()
    assert lines and all(set(line.split()) <= told.keys() for told in lines)
    assert [told[answer] for told in lines if answer in told][-1] == last[answer]
    sources = {source for _, _, _, source in last["trace"]}
    assert {last["found_by"]} <= sources <= {told["source"] for told in lines} | {last["proved_by"]}
    assert {"addresses" in last, "arena" in last, "arenas" in last} == {False}


@pytest.mark.parametrize(
    ("options", "keys"),
    [(("--budget", 8), {"arena", "alignment"}), (("--budget", 8, *PAGING), {"arenas", "alignment"})],
)
def test_json_keys_with_addresses_are_as_documented(command, graph, options, keys):
    searching = ("--search", "only", "--time-limit", 3, "--threads", 1, "--seed", 0)
    status, out, err = command("solve", graph, *options, *searching, "--addresses", "--json")
    assert status == 0, err
    told = json.loads(out)
    assert keys <= told.keys() and all("offset" in interval for interval in told["intervals"])


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        (("--budget", 6), r"incumbent \+[\d.]+ %  bound \+[\d.]+ %  gap [\d.]+ %"),
        (("--budget", 6, *PAGING), r"duration [\d,]+( FLOP)?  bound [\d,]+( FLOP)?  search"),
    ],
)
def test_progress_lines_are_readable(command, graph, options, pattern):
    searching = ("--search", "only", "--time-limit", 3, "--threads", 1, "--seed", 0)
    *_, err = command("solve", graph, *options, *searching)
    assert re.search(rf"^ +\d+\.\d s  (\d+ \+ \d+ nodes?  )?{pattern}$", err, re.MULTILINE), err
