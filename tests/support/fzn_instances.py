"""One constraint on random operands: all its forms, their solutions and their warm starts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from fzn_forms import Instance, set_text, value
from fzn_support import assignments, compile_model, solutions
from hypothesis import strategies as st

Argument = int | str | list | frozenset
LARGEST = 250
"""The most assignments that an instance may have; larger ones are skipped."""


def operands(low: int, high: int, width: int = 3) -> st.SearchStrategy[str]:
    """An integer constant or the type of a variable with few values, all in low..high."""
    number = st.integers(low, high)
    ranges = st.tuples(number, st.integers(1, width - 1)).map(lambda pair: f"{pair[0]}..{min(pair[0] + pair[1], high)}")
    return st.one_of(number.map(str), ranges, ranges, st.sets(number, min_size=1, max_size=width).map(set_text))


def check(name: str, holds: Callable[..., bool], *arguments: Argument) -> None:
    """Every form of the constraint has the solutions that `holds` says, and completes warm starts.

    Arguments are constants, types of variables, arrays of both and set parameters. `holds` takes their values, those
    of set parameters left out. The operand "=N" is the variable declared as number N, or 1 if there is none at all.
    """
    instance = Instance()

    def named(argument: Argument) -> object:
        if isinstance(argument, list):
            return [named(element) for element in argument]
        if isinstance(argument, frozenset):
            return f" {set_text(argument)}"
        text, names = str(argument), list(instance.declarations)
        if text.startswith("="):
            return names[int(text[1:]) % len(names)] if names else "1"
        return instance.operand(f"v{len(names)}", text)

    texts = [named(argument) for argument in arguments]
    everything = assignments(instance.declarations)
    if len(everything) > LARGEST:
        return
    instance.check(name, texts, holds)
    if not instance.declarations:
        return
    values = [text for text in texts if not str(text).startswith(" ")]
    for assignment in everything:
        if holds(*(value(argument, assignment) for argument in values)):
            instance.check_hints(name, texts, assignment)
            break
    instance.check_hints(name, texts, everything[-1], ("_imp", "_reif"))


def check_model(model: str, folder: Path, domains: dict[str, list], constraints: set[str], holds) -> None:
    """MiniZinc compiles the model to these global constraints, among others, and its solutions are those values of the
    variables, arrays as lists, for which `holds` is true."""
    text = compile_model(f'include "globals.mzn";\n{model}\nsolve satisfy;\n', folder)
    written = re.findall(r"constraint (?:fzn|native)_(\w+)", text)
    assert {f"fzn_{name}" for name in written} == constraints
    candidates = [dict(zip(domains, values, strict=True)) for values in itertools.product(*domains.values())]
    expected = [list(candidate.values()) for candidate in candidates if holds(**candidate)]
    found = [[solution[name] for name in domains] for solution in solutions(text)]
    assert sorted(found) == sorted(expected)


def arrays(length: int, values: Iterable[int]) -> list[list[int]]:
    """All arrays of that length, for `check_model`."""
    return [list(array) for array in itertools.product(values, repeat=length)]
