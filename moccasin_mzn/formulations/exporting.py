"""Instances and models as files that plain MiniZinc takes, and what it prints, read back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import count_text, memory_text
from moccasin_mzn.formulations.formulation import Formulation
from moccasin_mzn.formulations.models import included, includes
from moccasin_mzn.formulations.presolve import ModelData
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import names_of
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.solvers.linear.isolated import RelaxationError, program_text
from moccasin_mzn.solvers.minizinc.run import Solution, Value, compile_model, dzn_text
from moccasin_mzn.solvers.minizinc.solvers import LARGEST, NARROW_TITLES, find_backend, too_wide

MODEL, DATA = "model.mzn", "data.dzn"
"""In a folder that stands by itself; its checker is named as the MiniZinc IDE looks for it."""
CHECKER = "model.mzc.mzn"
_ITEM = re.compile(r"(?P<name>[A-Za-z]\w*)\s*=\s*(?P<value>[^;]*);")
_SHAPE = re.compile(r"array2d\(\s*1\.\.(?P<rows>\d+)\s*,\s*1\.\.(?P<columns>\d+)\s*,")
_SEQUENCE = re.compile(r"^sequence (?P<names>\[.*\])$", re.MULTILINE)
_VALUE = re.compile(r"true|false|-?\d+")
_VALUES = {"true": True, "false": False}
_END = "----------"


def data_text(
    instance: Instance, form: Formulation, data: ModelData, command: str, start: Sequence[int] | None = None
) -> str:
    """An instance as a `.dzn` file for the model of a formulation, with a comment at its top that describes it.

    Args:
        data: of the instance, as the formulation has them.
        command: what makes the file.
        start: a schedule to start from, positions in `graph.nodes`.
    """
    graph = instance.graph
    memory, most = memory_text(instance.budget, graph.size_unit), instance.counts
    lines = [
        f"{graph.name or 'a graph'}: {count_text(len(graph.nodes), 'node')}, {count_text(len(graph.edges), 'edge')}",
        f"budget {memory}, computations per node {most if isinstance(most, int | str) else 'given for each'}",
        f"made by: {command}",
        uncounted(form, data),
        f"for {form.file.name}; 1 of size stands for {data.size_scale:,}, 1 of duration for {data.duration_scale:,}",
    ]
    comment = "".join(f"% {' '.join(line.split())}\n" for line in lines if line)
    return comment + dzn_text(form.items(instance, data, start, None))


def uncounted(form: Formulation, data: ModelData) -> str:
    """Which solvers cannot count as far as the model may, and how far that is; empty: all can."""
    wide = too_wide(form.sums(data))
    if not wide:
        return ""
    largest = max(wide, key=lambda one: one.total)
    return f"{' and '.join(NARROW_TITLES)} count up to {LARGEST:,}, the total {largest.what} may be {largest.total:,}"


def mixed_integer_program(form: Formulation, data: str, kind: str) -> str:
    """A formulation with its data as a file of a mixed-integer program, "mps" or "lp".

    Raises:
        InputError: there is no such formulation, or its model cannot be written as one.
    """
    if form.limited:
        raise InputError(f"{form.called} is no mixed-integer program: checkmate-milp is one")
    flat = compile_model(find_backend("highs"), form.program, data)
    try:
        return program_text(flat, kind)
    except RelaxationError as error:
        raise InputError(f"{form.called} as a mixed-integer program: {error}") from None


def configurations(warm: bool) -> dict[str, str]:
    """Settings of solvers as files that `minizinc` and its IDE take, by name.

    Args:
        warm: is there a schedule to start from? Then Chuffed must not search freely, see `models/README.md`.
    """
    free = {"cp-sat": True, "gecode": False, "chuffed": not warm}
    configurations = {name: {"solver": name, **({"free-search": True} if on else {})} for name, on in free.items()}
    return {f"{name}.mpc": json.dumps(one, indent=2) + "\n" for name, one in configurations.items()}


def standalone(form: Formulation) -> dict[str, str]:
    """A model in one file, its checker, and the files that they need in their folder, by name.

    What CP-SAT has its own form of stays a file of its own, which that of its library replaces; and so does what it
    includes.
    """
    model, native = form.file, resources.files("moccasin_mzn.solvers.cpsat") / "mznlib"
    separate = {
        path for one in included(model) if native.joinpath(one.name).is_file() for path in {one, *included(one)}
    }
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(separate)}
    parts = list(_parts(model, separate, set()))
    comment = re.match(r"(%[^\n]*\n)*", parts[-1])
    head = comment.group() if comment else ""
    text = "\n".join([head, *(part.removeprefix(head).strip("\n") + "\n" for part in parts)])
    return {MODEL: text, CHECKER: form.checker_file.read_text(encoding="utf-8"), **texts}


def _parts(path: Path, separate: set[Path], seen: set[Path]) -> Iterator[str]:
    """The texts of a file and of what it includes, that first and once, but for files that stay separate."""
    seen.add(path)
    text = path.read_text(encoding="utf-8")
    for line, other in includes(path):
        if other in separate:
            text = text.replace(line, f'include "{other.name}";\n')
            continue
        if other not in seen:
            yield from _parts(other, separate, seen)
        text = text.replace(line, "")
    yield text


def read_solution(text: str) -> Solution:
    """The last solution that MiniZinc printed: its arrays as attributes if it was printed as items or as JSON; else
    `names`, its sequence, as the models print it for people.

    Raises:
        InputError: there is none, or it is of no such form.
    """
    solutions = text.split(_END)[:-1]
    if not solutions:
        raise InputError(f"there is no solution: expected what minizinc prints, which ends with {_END}")
    last = solutions[-1].strip()
    if last.startswith("{"):
        try:
            values = json.loads(last)
        except ValueError as error:
            raise InputError(f"the last solution is no JSON: {error}") from None
        values = values.get("output", values)
        values = values.get("json", values)
    elif sequence := _SEQUENCE.search(last):
        try:
            values = {"names": json.loads(sequence["names"])}
        except ValueError as error:
            raise InputError(f"the last solution has no sequence of names: {error}") from None
    else:
        values = {found["name"]: _array(found["value"]) for found in _ITEM.finditer(last)}
    if not isinstance(values, dict):
        raise InputError("the last solution has no arrays")
    return SimpleNamespace(**values)


def _array(text: str) -> Value | None:
    """A literal of booleans and integers: a scalar, an array, or a matrix as a list of rows."""
    shape = _SHAPE.match(text)
    if "[|" in text:
        return [_numbers(row) for row in text.split("|")[1:-1]]
    flat = _numbers(text[text.index("[") :]) if "[" in text else _numbers(text)
    if shape is not None:
        columns = int(shape["columns"])
        return [flat[first : first + columns] for first in range(0, len(flat), columns)]
    return flat if "[" in text else flat[0] if flat else None


def _numbers(text: str) -> list[bool | int]:
    return [_VALUES[found] if found in _VALUES else int(found) for found in _VALUE.findall(text)]


def decoded(instance: Instance, form: Formulation, values: Solution) -> tuple[int, ...]:
    """The sequence that the arrays of a solution stand for, positions in `graph.nodes`.

    Raises:
        InputError: arrays are missing, or are not of this instance.
    """
    if (names := getattr(values, "names", None)) is not None:
        return _by_name(instance.graph, names)
    try:
        return form.sequence(form.data(instance), values)
    except (AttributeError, IndexError, TypeError, ValueError, KeyError) as error:
        what = f"no array {error.name}" if isinstance(error, AttributeError) else "arrays of another instance"
        needed = "the same graph, budget, order, computations and formulation as for export are needed"
        raise InputError(f"the last solution has {what}: {needed}") from None


def _by_name(graph: ComputationGraph, names: Sequence[str]) -> tuple[int, ...]:
    position = {name: v for names in (map(str, graph.nodes), names_of(graph)) for v, name in enumerate(names)}
    for name in names:
        if name not in position:
            raise InputError(f"the last solution has a node {shown(name)}, which is not in the graph")
    return tuple(position[name] for name in names)
