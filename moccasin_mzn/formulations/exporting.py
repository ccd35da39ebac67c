"""Instances and models as files that plain MiniZinc takes, and what it prints, read back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from moccasin_mzn.errors import InputError
from moccasin_mzn.formulations.formulation import Formulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.solvers.minizinc.dzn import dzn_text
from moccasin_mzn.words import count_text, memory_text

MODEL, DATA = "model.mzn", "data.dzn"
"""In a folder that stands by itself; its checker is named as the MiniZinc IDE looks for it."""
CHECKER = "model.mzc.mzn"
_INCLUDE = re.compile(r'^include "(?P<file>[^"]+)";[^\n]*\n', re.MULTILINE)
_ITEM = re.compile(r"(?P<name>[A-Za-z]\w*)\s*=\s*(?P<value>[^;]*);")
_SHAPE = re.compile(r"array2d\(\s*1\.\.(?P<rows>\d+)\s*,\s*1\.\.(?P<columns>\d+)\s*,")
_VALUE = re.compile(r"true|false|-?\d+")
_VALUES = {"true": True, "false": False}
_END = "----------"


def data_text(instance: Instance, form: Formulation, start: Sequence[int] | None = None, command: str = "") -> str:
    """The instance as a `.dzn` file for the model of a formulation, with a comment that says what it is.

    Args:
        start: a schedule to start from, positions in `graph.nodes`.
        command: what made the file.
    """
    graph, data = instance.graph, form.data(instance)
    names = json.dumps([str(graph.nodes[v]) for v in data.order], ensure_ascii=True)
    memory, most = memory_text(instance.budget, graph.size_unit), instance.counts
    lines = [
        f"{graph.name or 'a graph'}: {count_text(len(graph.nodes), 'node')}, {count_text(len(graph.edges), 'edge')}",
        f"budget {memory}, computations per node {most if isinstance(most, int | str) else 'given for each'}",
        f"made by: {command}" if command else "",
        f"for {form.model('duration').name}; 1 of size stands for {data.size_scale:,}, 1 of duration for "
        f"{data.duration_scale:,}",
        f"nodes 1..{len(data.order)} are {names}",
    ]
    comment = "".join(f"% {' '.join(line.split())}\n" for line in lines if line)
    return comment + dzn_text(form.items(instance, data, start, None))


def json_text(instance: Instance, form: Formulation, start: Sequence[int] | None = None) -> str:
    """The same as MiniZinc's JSON."""
    return json.dumps(form.items(instance, form.data(instance), start, None)) + "\n"


def standalone(form: Formulation) -> dict[str, str]:
    """A model in one file, its checker, and the files they need beside them, by name.

    What solvers have their own form of, `fzn_*.mzn`, stays a file of its own, which theirs replaces; and so does what
    it includes.
    """
    model = form.model("duration")
    beside = {path for one in _included(model) if one.name.startswith("fzn_") for path in {one, *_included(one)}}
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(beside)}
    parts = list(_parts(model, beside, set()))
    comment = re.match(r"(%[^\n]*\n)*", parts[-1])
    head = comment.group() if comment else ""
    text = "\n".join([head, *(part.removeprefix(head).strip("\n") + "\n" for part in parts)])
    return {MODEL: text, CHECKER: form.checker_file.read_text(encoding="utf-8"), **texts}


def _includes(path: Path) -> Iterator[tuple[str, Path]]:
    """The lines of a file that include one of ours, and which; others are of MiniZinc's own library."""
    for found in _INCLUDE.finditer(path.read_text(encoding="utf-8")):
        other = (path.parent / found["file"]).resolve()
        if other.is_file():
            yield found.group(), other


def _included(path: Path) -> set[Path]:
    """All files of ours that a file includes, and those that they include."""
    found: set[Path] = set()
    for _, other in _includes(path):
        found |= {other, *_included(other)}
    return found


def _parts(path: Path, beside: set[Path], seen: set[Path]) -> Iterator[str]:
    """The texts of a file and of what it includes, that first and once, but for files that stay beside it."""
    seen.add(path)
    text = path.read_text(encoding="utf-8")
    for line, other in _includes(path):
        if other in beside:
            text = text.replace(line, f'include "{other.name}";\n')
            continue
        if other not in seen:
            yield from _parts(other, beside, seen)
        text = text.replace(line, "")
    yield text


def read_solution(text: str) -> Any:
    """The arrays of the last solution that MiniZinc printed, as items or as JSON, as attributes.

    Raises:
        InputError: there is none, or it is none of either form.
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
    else:
        values = {found["name"]: _array(found["value"]) for found in _ITEM.finditer(last)}
    if not isinstance(values, dict):
        raise InputError("the last solution has no arrays")
    return SimpleNamespace(**values)


def _array(text: str) -> Any:
    """A literal of booleans and integers: a scalar, an array, or a matrix as a list of rows."""
    shape = _SHAPE.match(text)
    if "[|" in text:
        return [_numbers(row) for row in text.split("|")[1:-1]]
    flat = _numbers(text[text.index("[") :]) if "[" in text else _numbers(text)
    if shape is not None:
        columns = int(shape["columns"])
        return [flat[first : first + columns] for first in range(0, len(flat), columns)]
    return flat if "[" in text else flat[0] if flat else None


def _numbers(text: str) -> list[Any]:
    return [_VALUES[found] if found in _VALUES else int(found) for found in _VALUE.findall(text)]


def decoded(instance: Instance, form: Formulation, values: Any) -> tuple[int, ...]:
    """The sequence that the arrays of a solution stand for, positions in `graph.nodes`.

    Raises:
        InputError: arrays are missing, or are not of this instance.
    """
    try:
        return form.sequence(form.data(instance), values)
    except (AttributeError, IndexError, TypeError, ValueError, KeyError) as error:
        what = f"no array {error.name}" if isinstance(error, AttributeError) else "arrays of another instance"
        told = "the same graph, budget, order, computations and formulation as for export are needed"
        raise InputError(f"the last solution has {what}: {told}") from None
