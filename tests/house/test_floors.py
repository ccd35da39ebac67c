"""Who imports whom in the package, lazy imports and those for types included: floors, circles, and walls."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

pytestmark = pytest.mark.xdist_group("floors")  # one worker reads all files

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "moccasin_mzn"
GROUND = "base"
"""What every room stands on."""
FACE = "face"
"""The package itself (`__init__`), its functions (`face`), and `__main__`."""
FLOORS = (
    (GROUND,), ("solvers",), ("graphs",), ("problem",), ("heuristics",), ("bounds", "formulations"), ("strategies",),
    ("search",), ("machine",), ("api",), ("bench", "report"), ("deploy", "pytorch"), ("cli",), (FACE,),
)  # fmt: skip
"""From below; a room imports lower ones only."""
JUDGES_IMPORT = {GROUND: None, "graphs": {"graph", "wording"}, "problem": {"plan", "platform", "arena", "judges"}}
"""Rooms, and modules of them, that the judges may import: what they judge, and nothing else. None: all."""


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(path): path for path in sorted((ROOT / PACKAGE).rglob("*.py"))}


@cache
def tree_of(module: str) -> ast.Module:
    """The syntax of a file, read once, and only where a test needs it."""
    return ast.parse(FILES[module].read_text())


@cache
def imported(module: str) -> frozenset[str]:
    """The modules of the package that one imports, and the names of packages outside."""
    package = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            found |= {f"{base}.{name.name}" if f"{base}.{name.name}" in FILES else base for name in node.names}
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "MODULES":
            found |= {f"{package}.{name}" for name in ast.literal_eval(node.value)}  # a list of what is found by name
    return frozenset(found - {module})


@cache
def inside() -> nx.DiGraph:
    """Who imports whom in the package."""
    return nx.DiGraph([(one, other) for one in FILES for other in imported(one) if other in FILES])


def room_of(module: str) -> str:
    parts = module.split(".")
    if len(parts) == 1 or parts[1] in ("__main__", "face"):
        return FACE
    return parts[1]


def test_every_room_has_a_floor():
    assert {room_of(module) for module in FILES} == {room for floor in FLOORS for room in floor}
    assert len([room for floor in FLOORS for room in floor]) <= 17
    loose = {path.stem for path in FILES.values() if path.parent == ROOT / PACKAGE}
    assert loose == {"__init__", "__main__", "face"}


def test_no_room_imports_one_above():
    floor = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    upwards = [
        (one, other)
        for one, other in inside().edges
        if room_of(one) != room_of(other) and floor[room_of(other)] >= floor[room_of(one)]
    ]
    assert upwards == []


def test_files_import_in_no_circle():
    assert [circle for circle in nx.strongly_connected_components(inside()) if len(circle) > 1] == []


def test_rooms_and_levels_are_few():
    rooms = nx.DiGraph(
        [(room_of(one), room_of(other)) for one, other in inside().edges if room_of(one) != room_of(other)]
    )
    assert nx.is_directed_acyclic_graph(rooms)
    assert len(list(nx.topological_generations(rooms))) <= 13


def test_judges_import_what_they_judge_and_nothing_else():
    for module in FILES:
        if module.startswith(f"{PACKAGE}.problem.judges"):
            for other in imported(module) & set(FILES):
                allowed = JUDGES_IMPORT.get(room_of(other), set())
                assert allowed is None or other.split(".")[2] in allowed, (module, other)


@pytest.mark.parametrize(("package", "room"), [("click", "cli"), ("cloup", "cli"), ("rich", "report")])
def test_packages_that_one_room_imports(package, room):
    users = {module for module in FILES if any(other.split(".")[0] == package for other in imported(module))}
    assert users and {room_of(module) for module in users} == {room}


def test_solvers_know_nothing_of_rematerialization():
    others = {room_of(other) for one, other in inside().edges if room_of(one) == "solvers"}
    assert others <= {"solvers", GROUND}


def test_nothing_below_the_command_line_starts_it():
    """Processes of the package are modules of their own rooms, which read what they are asked as data."""
    for module in FILES:
        if room_of(module) in ("cli", FACE):
            continue
        for node in ast.walk(tree_of(module)):
            parts = node.elts if isinstance(node, ast.List | ast.Tuple) else []
            words = [str(part.value) if isinstance(part, ast.Constant) else "" for part in parts]
            assert ("-m", PACKAGE) not in list(zip(words, words[1:], strict=False)), module
            assert not any(word.startswith(f"{PACKAGE}.cli") for word in words), module


def test_no_class_name_is_in_a_room_twice():
    seen: dict[tuple[str, str], str] = {}
    for module in sorted(FILES):
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.ClassDef):
                assert seen.setdefault((room_of(module), node.name), module) == module, node.name
