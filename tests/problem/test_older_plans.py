"""Schedules and plans as they were written before they had a version: they still read, and are judged as before."""

from __future__ import annotations

import json

import pytest
from platform_support import DIAMOND, PLAN, platform

from moccasin_mzn.problem.files.plans import goal_document, plan_document, platform_document, read_plan
from moccasin_mzn.problem.files.schedules import read_schedule
from moccasin_mzn.problem.judges.schedules import Interval
from moccasin_mzn.problem.platform import Goal
from moccasin_mzn.problem.validate import validate_plan, validate_schedule

SCHEDULE = {
    "graph": "diamond", "nodes": 4, "sequence": list("abacd"), "peak": 14, "duration": 11, "budget": 15,
    "intervals": [
        {"node": "a", "start": 1, "end": 2, "offset": 0}, {"node": "b", "start": 2, "end": 4, "offset": 8},
        {"node": "a", "start": 3, "end": 5, "offset": 0}, {"node": "c", "start": 4, "end": 5, "offset": 12},
        {"node": "d", "start": 5, "end": 5, "offset": 8},
    ],
    "arena": 14, "alignment": 2,
}  # fmt: skip
SEVERAL = {
    "plan": plan_document(platform(12), PLAN), "goal": goal_document(Goal()),
    "platform": platform_document(platform(12)), "duration": 120, "energy": 29, "traffic": 16,
    "peaks": {"local": 12, "slow": 8},
    "intervals": [
        {"node": "a", "memory": "local", "start": 1, "end": 3, "offset": 0},
        {"node": "a", "memory": "slow", "start": 2, "end": 5, "offset": 0},
        {"node": "b", "memory": "local", "start": 3, "end": 4, "offset": 8},
        {"node": "c", "memory": "local", "start": 4, "end": 6, "offset": 12},
        {"node": "a", "memory": "local", "start": 5, "end": 6, "offset": 0},
        {"node": "d", "memory": "local", "start": 6, "end": 6, "offset": 8},
    ],
    "alignment": 4, "arenas": {"local": {"arena": 14}, "slow": {"arena": 8}},
}  # fmt: skip


@pytest.fixture
def written(tmp_path):
    def write(document):
        path = tmp_path / "older.json"
        path.write_text(json.dumps(document))
        return path

    return write


def test_a_list_is_a_schedule(written):
    assert read_schedule(written(list("abcd")), DIAMOND).sequence == (0, 1, 2, 3)


def test_older_schedules_are_read(written):
    claimed = read_schedule(written(SCHEDULE), DIAMOND)
    assert claimed.sequence == (0, 1, 0, 2, 3) and claimed.offsets == (0, 8, 0, 12, 8)
    assert claimed.intervals[2] == Interval(0, 3, 5) and (claimed.arena, claimed.alignment) == (14, 2)
    assert validate_schedule(DIAMOND, claimed, None) == ()


def test_older_plans_of_several_memories_are_read(written):
    claimed = read_plan(written(SEVERAL), DIAMOND)
    assert (claimed.platform, claimed.plan) == (platform(12), PLAN)
    assert [one.offset for one in claimed.placed] == [0, 0, 8, 12, 0, 8] and claimed.arenas == ((0, 14), (1, 8))
    assert {one.kind for one in validate_plan(claimed).violations} == {"arena-over-budget"}  # and nothing else
