"""Plans in files: what is written is read back, and what is claimed is checked."""

from __future__ import annotations

import json

import pytest
from platform_support import DIAMOND, PLAN, platform

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.problem.files.plans import goal_document, plan_document, platform_document, read_plan
from moccasin_mzn.problem.platform import Goal
from moccasin_mzn.problem.validate import validate_plan

GOAL = Goal("energy", max_traffic=16)
DOCUMENT = {
    "plan": plan_document(platform(12), PLAN),
    "goal": goal_document(GOAL),
    "platform": platform_document(platform(12)),
    "duration": 120,
    "peaks": {"local": 12, "slow": 8},
}


def written(folder, **changed):
    path = folder / "plan.json"
    path.write_text(json.dumps({**DOCUMENT, **changed}))
    return path


def test_a_plan_comes_back_as_it_was(tmp_path):
    claimed = read_plan(written(tmp_path), DIAMOND)
    assert (claimed.platform, claimed.plan, claimed.goal) == (platform(12), PLAN, GOAL)
    assert (claimed.totals, claimed.peaks) == ((("duration", 120),), ((0, 12), (1, 8)))
    assert validate_plan(claimed).violations == ()


def test_actions_are_named():
    assert DOCUMENT["plan"][:2] == [{"compute": "a", "in": "local"}, {"copy": "a", "from": "local", "to": "slow"}]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"duration": 119}, "duration claimed is 119, but the plan has duration 120"),
        ({"peaks": {"slow": 9}}, "peak in slow claimed is 9, but the plan has 8"),
        ({"goal": {"max_traffic": 15}}, "traffic 16 is 1 over the limit 15"),
        ({"plan": DOCUMENT["plan"][:-1]}, "node d is never computed"),
    ],
)
def test_false_claims_are_violations(tmp_path, changed, message):
    assert message in [
        found.message for found in validate_plan(read_plan(written(tmp_path, **changed), DIAMOND)).violations
    ]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"plan": {}}, 'expected an object with a key "plan"'),
        ({"plan": [{"compute": "x", "in": "local"}]}, r"plan\[0\]: .*x"),
        ({"plan": [{"compute": "a", "in": "fast"}]}, r"plan\[0\]: unknown memory 'fast', expected one of local, slow"),
        ({"plan": [{"move": "a"}]}, r'plan\[0\]: expected \{"compute", "in"\}'),
        ({"platform": None}, "platform.memories: expected a list of objects"),
        ({"platform": {"memories": [{"name": 3}], "links": []}}, r"platform.memories\[0\]: expected a name, got 3"),
        ({"platform": {"memories": [{"name": "m", "durations": 3}], "links": []}}, "durations: expected a list, got 3"),
        ({"goal": {"least": "duration"}}, "goal: expected an object with keys of"),
        ({"duration": -1}, "duration is -1, expected an integer >= 0"),
        ({"peaks": [1]}, "peaks: expected an object"),
    ],
)
def test_broken_files_are_refused(tmp_path, changed, message):
    with pytest.raises(InputError, match=message) as caught:
        read_plan(written(tmp_path, **changed), DIAMOND)
    assert "\n" not in str(caught.value) and "plan.json" in str(caught.value)
