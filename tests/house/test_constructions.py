"""Whoever makes schedules hands them to a judge: calls of all that makes schedules are followed to one of the doors.

A maker is what makes schedules that nobody has judged yet: a function of the rooms of rules, bounds and compiled
searches that returns sequences of positions, or a subclass of `Annealing`, which calls back with them. Where one is
used, in whatever room, the function or class around it has to use a door as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
from test_floors import FILES, imported, tree_of

DOORS = {
    "judged": "problem/construction.py",
    "judged_within": "problem/construction.py",
    "offer": "search/board.py",  # of searches
    "_offer": "search/counted.py",  # to the board
    "takes": "search/apply_strategy.py",  # of strategies
    "check_start": "formulations/formulation.py",  # all that a board would ask
    "_judged": "machine/addresses/arrange.py",  # at the budget proper
    "judge_plan": "problem/judges/plans.py",  # of several memories
    "take": "machine/devices/search.py",  # what the caller of a search of plans gives: its board's offer
}
"""By name, the file that has it."""
SEQUENCES = {"tuple[int, ...]", "Sequence[int]", "list[int]"}
ROOMS = tuple(f"moccasin_mzn.{room}." for room in ("heuristics", "strategies", "bounds", "pytorch.on_demand"))
MAKERS_ELSEWHERE = {
    ("moccasin_mzn.pytorch.starts", "checkpointed"),
    ("moccasin_mzn.search.searchers.any_order", "starts"),
    ("moccasin_mzn.machine.addresses.release", "near_by"),
}
NO_SCHEDULES = {
    "linearized", "every_root", "greedy", "articulation_points", "promising", "separated", "stream_arrays",
    "thresholds", "memory_anew", "retained_in_stages",  # parts of what a rule or a bound decides
    "sequence_of",  # of a state or a matrix, in the rooms that have these
    "diverse_orders", "improve_order",  # `OrderSearch.offer` judges them, `good_orders`, a maker, passes them on
}  # fmt: skip


def returns_sequences(node: ast.FunctionDef) -> bool:
    returned = "" if node.returns is None else ast.unparse(node.returns)
    inner = returned.removesuffix(" | None").removeprefix("Iterator[").removesuffix("]")
    return returned.removesuffix(" | None") in SEQUENCES or (returned.startswith("Iterator[") and inner in SEQUENCES)


def is_annealing(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).startswith("Annealing[") for base in node.bases)


pytestmark = pytest.mark.xdist_group("floors")  # one worker reads all files


@cache
def makers() -> frozenset[tuple[str, str]]:
    """Module and name of each."""
    found = set(MAKERS_ELSEWHERE)
    for module in FILES:
        if (module + ".").startswith(ROOMS) or module.startswith(ROOMS):
            for node in tree_of(module).body:
                made = isinstance(node, ast.FunctionDef) and returns_sequences(node) and node.name not in NO_SCHEDULES
                if made or (isinstance(node, ast.ClassDef) and is_annealing(node)):
                    found |= {(module, node.name)} if not node.name.startswith("_") else set()
    return frozenset(found)


def names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }


def own(module: str) -> set[tuple[bool, str]]:
    return {(True, name) for of, name in MAKERS_ELSEWHERE if of == module}


def uses() -> Iterator[tuple[str, str, str, bool]]:
    """Module, function or class, maker, and whether there is a door in it; the makers' own modules aside."""
    for module, path in FILES.items():
        text = path.read_text()
        if not any(of in text or of == module for of, _ in makers()):
            continue  # to read the syntax of all files takes seconds
        known = {name for of, name in makers() if of in imported(module) or (of == module, name) in own(module)}
        if not known:
            continue
        for node in tree_of(module).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (module, node.name) not in makers():
                names = names_in(node)
                for name in sorted(known & names):
                    yield module, node.name, name, bool(names & DOORS.keys())


ONLY_COMPILES = {"compile_all"}
"""Runs a search so that it is compiled; what it finds is dropped."""
RULES_OF_STRATEGIES = "moccasin_mzn.strategies."
"""Its rules are generators that `apply` asks, whose `takes` judges all they make."""


def test_makers_are_known():
    names = {name for _, name in makers()}
    assert names >= {
        "LocalSearch",
        "OrderAnnealing",
        "PlanAnnealing",
        "retained",
        "on_demand",
        "separator_schedule",
        "good_orders",
    }
    assert names >= {"checkpointed", "schedule"}


def test_whoever_makes_schedules_hands_them_to_a_judge():
    found = list(uses())
    assert {module.split(".")[1] for module, *_ in found} >= {"api", "search", "pytorch", "machine"}
    undoored = [
        (module, where, maker)
        for module, where, maker, door in found
        if not door and where not in ONLY_COMPILES and not module.startswith(RULES_OF_STRATEGIES)
    ]
    assert undoored == []
    assert any(module.startswith(RULES_OF_STRATEGIES) and not door for module, *_, door in found)  # what lacks is seen


@pytest.mark.parametrize("door", DOORS)
def test_doors_exist(door):
    text = (FILES["moccasin_mzn"].parent / DOORS[door]).read_text()
    assert re.search(rf"def {door}\(|\b{door}: ", text)
