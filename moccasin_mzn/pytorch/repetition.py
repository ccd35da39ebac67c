"""Does a network do the same each time? A trace has Python's numbers as constants, which a plan repeats in every step.

Counters and schedules that are no attributes of a module (`STATE["step"]`), the clock, or a library that behaves
differently while it is traced show in the operators that a forward pass calls::

    run        mul(T, 1)
    traced     mul(T, 2)      not the same: run once more
    run        mul(T, 3)      neither: refused, with the line. If it is what was traced, the first run has made
                              something that is kept, such as a mask.

What is compared is the row of operators with all of their arguments that are no tensors, and the values of tensors that
are made of numbers. What changes from time to time only, such as a weight in a global dictionary that a schedule sets,
is noted where the user's own functions read it, and compared before each step like an attribute.
"""

from __future__ import annotations

import contextlib
import copy
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FrameType, FunctionType, SimpleNamespace
from typing import TYPE_CHECKING

from moccasin_mzn.clock import nothing
from moccasin_mzn.graphs.importers.torch.spec import is_foreign, line_here
from moccasin_mzn.log import note
from moccasin_mzn.pytorch.attributes import is_plain
from moccasin_mzn.pytorch.errors import UntraceableError

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

_MOST = 1000
"""Tensors that are made of more numbers are not compared."""
_SILENT = "aten.detach.default"
"""It has no numbers, and looking at a tensor calls it."""


@dataclass(frozen=True)
class Call:
    """An operator and its arguments, without tensors."""

    operator: str
    arguments: tuple[object, ...]

    def __str__(self) -> str:
        numbers = ", ".join(str(each) for each in self.arguments if each is not _TENSOR)
        return f"{self.operator.removesuffix('.default')}({numbers})"


@dataclass
class Calls:
    """The operators that a forward pass has called, in their order."""

    made: list[Call] = field(default_factory=list)
    expected: Sequence[Call] | None = None
    """Those of another run; None: it is the first."""
    place: str = ""
    """The user's line of the first call that is not the expected one."""
    check: Callable[..., object] = nothing
    """Called with each operator before it; what it raises ends the run."""


class _Tensor:
    def __repr__(self) -> str:
        return "T"


_TENSOR = _Tensor()


@contextlib.contextmanager
def calls_noted(calls: Calls, network: torch.nn.Module) -> Iterator[None]:
    """Meanwhile operators are noted, to be entered around a forward pass, traced or not."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Noted(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: torch._ops.OpOverload, types: object, args: PyTree = (), kwargs: PyTree = None
        ) -> PyTree:
            calls.check(function)
            if function.namespace == "aten" and str(function) != _SILENT:
                self.note(Call(str(function), _constants(function, args, kwargs or {})))
            return function(*args, **(kwargs or {}))

        def note(self, call: Call) -> None:
            at, expected = len(calls.made), calls.expected
            if expected is not None and not calls.place and (at >= len(expected) or expected[at] != call):
                calls.place = line_here(network) or "unknown line"
            calls.made.append(call)

    with Noted():
        yield


def _constants(function: torch._ops.OpOverload, args: PyTree, kwargs: PyTree) -> tuple[object, ...]:
    """The arguments that are no tensors, as texts, as no number is not equal to itself then."""
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves((args, kwargs))
    if function._schema.name in ("aten::lift_fresh", "aten::lift_fresh_copy"):
        return tuple(_numbers(leaf) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves)
    return tuple(_TENSOR if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves)


def _numbers(tensor: torch.Tensor) -> object:
    """The values of a tensor that is made of a few numbers of Python."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._python_dispatch import _disable_current_modes

    if isinstance(tensor, FakeTensor) or tensor.is_meta or tensor.numel() > _MOST:
        return _TENSOR
    with _disable_current_modes():
        return repr(tensor.tolist())


def check_repeated(run: Calls, traced: Calls, again: Callable[[Calls], object]) -> None:
    """Refuse a network that called other operators while it was traced than when it ran, unless it does so from now on.

    Args:
        run: the calls of a run before.
        again: runs once more and notes its calls.

    Raises:
        UntraceableError: it is not the same each time; names the line, and what was called there.
    """
    if run.made == traced.made:
        return
    once_more = Calls(expected=traced.made, check=traced.check)
    again(once_more)
    if once_more.made == traced.made:
        return
    pairs = zip_longest(traced.made, once_more.made)
    one, other = next((mine, its) for mine, its in pairs if mine != its)
    raise UntraceableError(
        f"the network does not do the same each time it is called: {one or 'nothing'} was traced, "
        f"{other or 'nothing'} was called when it ran: {once_more.place or 'at its end'}; "
        "a number that changes must be an input, a buffer, or an attribute of a module"
    )


# --- Variables outside of modules: globals and what closures have, that functions of the user's own files read ---


Variable = tuple[str, Mapping[str, object], str, object]
"""The name for messages, where the variable is, its name there, and its value."""


@contextlib.contextmanager
def variables_read() -> Iterator[Callable[[], list[Variable]]]:
    """Note the variables outside of modules that the user's functions name which are called meanwhile.

    Those are plain values, and of dictionaries and plain objects the entries and attributes whose names stand in the
    same function. What is yielded gives those that are still the same, as others change in each run.
    """
    found: dict[tuple[int, str], Variable] = {}
    seen: set[object] = set()

    def look(frame: FrameType, event: str, _called: object) -> None:
        code = frame.f_code
        if event != "call" or (code in seen and not code.co_freevars):
            return
        if code not in seen and not _is_own(code.co_filename):
            seen.add(code)
            return
        if code not in seen:
            seen.add(code)
            _note_variables(found, code, frame.f_globals, [name for name in code.co_names if name in frame.f_globals])
        if code.co_freevars and _is_own(code.co_filename):
            closed = {name: frame.f_locals[name] for name in code.co_freevars if name in frame.f_locals}
            inner = [name for name, value in closed.items() if isinstance(value, dict) or not is_plain(value)]
            _note_variables(found, code, closed, inner)  # other values are copies

    def same() -> list[Variable]:
        return [each for each in found.values() if each[1].get(each[2], found) == each[3]]

    if sys.getprofile() is not None:  # one of C, such as `cProfile`, could not be put back
        note("variables outside of modules are not compared: a profiler is on")
        yield same
        return
    sys.setprofile(look)
    try:
        yield same
    finally:
        sys.setprofile(None)


@cache
def _is_own(file: str) -> bool:
    """True for a file that is neither of Python, nor of this package, nor of an installed one."""
    return os.path.isfile(file) and not is_foreign(Path(file)) and "site-packages" not in Path(file).parts


def _note_variables(
    found: dict[tuple[int, str], Variable], code: CodeType, place: Mapping[str, object], names: Iterable[str]
) -> None:
    """Note variables, of dictionaries and objects the plain values in them whose names are in the code."""
    named = {*code.co_names, *(each for each in code.co_consts if isinstance(each, str))}
    for name in names:
        value = place[name]
        if is_plain(value) and not isinstance(value, dict):
            _keep(found, f"'{name}'", place, name)
            continue
        inner = value if isinstance(value, dict) else _attributes_of(value)
        if inner is not None:
            for key in named.intersection(inner):
                if is_plain(inner[key]):
                    called = f"'{name}[{key!r}]'" if isinstance(value, dict) else f"'{name}.{key}'"
                    _keep(found, called, inner, key)


def _keep(found: dict[tuple[int, str], Variable], called: str, place: Mapping[str, object], name: str) -> None:
    value = place[name]
    kept = copy.copy(value) if isinstance(value, list | set | dict) else value  # they may be changed in place
    found.setdefault((id(place), name), (called, place, name, kept))


def _attributes_of(value: object) -> dict[str, object] | None:
    """The attributes of an object whose class is neither of Python, nor of PyTorch, but for namespaces; else None."""
    import torch

    module = sys.modules.get(type(value).__module__)
    file = getattr(module, "__file__", None)
    own = isinstance(value, SimpleNamespace) or (file is not None and _is_own(file))
    if not own or isinstance(value, type | FunctionType | torch.nn.Module | torch.Tensor):
        return None
    return getattr(value, "__dict__", None)
