"""What Python code reads while a step is traced: attributes of modules and objects, variables, the environment.

Attributes are noted as they are read, by `__getattribute__` of the classes of modules and of the objects that they
have. Variables are those whose names stand in the functions that are called, in the user's own files and notebooks; of
installed packages that have modules of the network only plain ones.
"""

from __future__ import annotations

import argparse
import contextlib
import dis
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from moccasin_mzn.base.clock import nothing
from moccasin_mzn.base.log import note
from moccasin_mzn.graphs.importers.torch.spec import is_foreign

if TYPE_CHECKING:
    import torch

NOTHING = object()
"""What a missing attribute or entry has in place of a value."""
_PLAIN = bool, int, float, complex, str, bytes, type(None)
_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8
"""Flags of classes, as Python's C interface has them: Python code makes those of the heap, and may change the mutable
ones."""
_MOST_MET = 300
"""The classes of what is in a collection with more entries are not instrumented."""
_DEEPEST = 4
_MOST_CALLS = 4
"""Arguments of a function are looked at for this many calls."""
_LOADS = "LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"
_PADDING = "CACHE", "PUSH_NULL", "NOP", "EXTENDED_ARG", "PRECALL"

Keys = frozenset[object] | None
"""Constant keys of a dictionary; None: it is used in another way, too."""
_DYNAMIC, _FILLED = object(), object()
ANY_KEY: Keys = frozenset((_DYNAMIC,))
"""The object is read by keys that are computed."""
GROWS: Keys = frozenset((_DYNAMIC, _FILLED))
"""The object is written by such keys, as a cache is."""
_TAKES = {"BINARY_SUBSCR": 2, "STORE_SUBSCR": 2, "DELETE_SUBSCR": 2, "BINARY_OP": 2, "COMPARE_OP": 2, "CONTAINS_OP": 2}
"""How many values an instruction takes from the stack, of those that may lie above the one that is followed."""


@dataclass
class Reads:
    """What was read."""

    modules: dict[int, dict[str, bool]] = field(default_factory=dict)
    """Attributes of modules, by the module's identity; True: read with the value that was there before."""
    absent: dict[int, set[str]] = field(default_factory=dict)
    """Names that were read of modules which are no attributes of these themselves, but of their class or of nothing."""
    objects: dict[int, set[str]] = field(default_factory=dict)
    """The names of attributes that were read of objects of instrumented classes, by the object's identity."""
    former: dict[type, Any] = field(default_factory=dict)
    """Instrumented classes, with their own way to find attributes."""
    variables: dict[tuple[int, str], Mapping[str, Any]] = field(default_factory=dict)
    """Global variables that called functions name: the dictionary of them, by its identity and the name."""
    names: set[str] = field(default_factory=set)
    """Names and texts that stand in called functions."""
    keys: dict[str, Keys] = field(default_factory=dict)
    """For attributes and variables the keys that they are subscripted with."""
    environment: set[str] = field(default_factory=set)
    """Variables of the environment."""
    in_backward: bool = False
    """Python code is called in the backward pass: a function of autograd or a hook."""
    is_on: bool = False
    """The step is running, not what traces it."""
    before_variable: Callable[[Mapping[str, Any], str], object] = nothing
    """Called with a global variable before the function that names it first runs."""
    _look: Callable[[FrameType, str, Any], None] | None = None
    """A profiler of Python, which notes variables."""

    @contextlib.contextmanager
    def running(self, variables: bool = True) -> Iterator[None]:
        """Note what is read meanwhile.

        Args:
            variables: note variables, too, which takes as long as tracing itself.
        """
        profiled = variables and self._look is not None and sys.getprofile() is None
        self.is_on = True
        if profiled:
            sys.setprofile(self._look)
        try:
            yield
        finally:
            if profiled:
                sys.setprofile(None)
            self.is_on = False

    def names_of(self, value: object, own: Mapping[str, object]) -> list[str]:
        """The attributes of an object itself that were read: all, where its class has its own way to find them.

        Configurations of transformers have a dictionary of other names, `attribute_map`.
        """
        kind = type(value)
        if kind not in self.former:
            named = (name for name in self.names if name in own or hasattr(kind, name))
            return sorted(name for name in named if not name.startswith("__")) if _is_mutable(kind) else [*own]
        names = self.objects.get(id(value), set())
        aliases = getattr(kind, "attribute_map", None)
        own_way = self.former[kind] is not object.__getattribute__ or hasattr(kind, "__getattr__")
        if "__dict__" in names or (own_way and not isinstance(aliases, dict)):
            return [*own]
        found = {aliases.get(name, name) if isinstance(aliases, dict) else name for name in names}
        return sorted(name for name in found if not name.startswith("__"))

    def named_in(self, place: Iterable[str]) -> set[str]:
        """The names of a dictionary that stand in called functions."""
        return self.names.intersection(place)

    def note_code(self, code: CodeType) -> None:
        """Note names and keys that stand in a function."""
        self.names.update(code.co_names, (code.co_name,), (each for each in code.co_consts if isinstance(each, str)))
        for name, keys in keys_in(code).items():
            self.keys[name] = _joined(self.keys.get(name, frozenset()), keys)

    def constant_keys(self, name: object) -> frozenset[object] | None:
        """The only keys by which a dictionary of this name is read; None: others, too."""
        keys = self.keys.get(name) if isinstance(name, str) else None
        return None if keys is None or _DYNAMIC in keys else keys

    def is_cache(self, name: object) -> bool:
        """True if a dictionary of this name is only read and filled by keys: others may come."""
        keys = self.keys.get(name) if isinstance(name, str) else None
        return keys is not None and _FILLED in keys


# --- How functions use what they name, by their instructions -------------------------------------------------------


@cache
def globals_in(code: CodeType) -> frozenset[str]:
    """The global variables that a function reads; `co_names` has the names of attributes, too."""
    return frozenset(each.argval for each in _row(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"))


@cache
def keys_in(code: CodeType) -> dict[str, Keys]:
    """For attributes and variables the constant keys that a function reads of them: `STATE["step"]`,
    `self.names.get("a")`."""
    row = _row(code)
    found: dict[str, Keys] = {}
    for at, load in enumerate(row):
        if load.opname in _LOADS:
            found[load.argval] = _joined(found.get(load.argval, frozenset()), _keys(row, at, frozenset()))
    return found


def _joined(one: Keys, other: Keys) -> Keys:
    return None if one is None or other is None else one | other


def _row(code: CodeType) -> list[dis.Instruction]:
    return [each for each in dis.get_instructions(code) if each.opname not in _PADDING]


def _keys(row: Sequence[dis.Instruction], at: int, locals_seen: frozenset[str]) -> Keys:
    """What is done with the value that an instruction loads."""
    if [each.opname for each in row[at + 1 : at + 3]] == ["LOAD_CONST", "COPY"]:  # STATE["step"] += 1
        return frozenset((row[at + 1].argval,))
    user = _user(row, at + 1)
    if user is None:
        return None
    first, instruction = row[at + 1], row[user]
    is_key = first.opname == "LOAD_CONST" and user == at + 2  # the only thing that is loaded in between
    if instruction.opname == "STORE_FAST" and instruction.argval not in locals_seen:
        seen, found = locals_seen | {instruction.argval}, frozenset[object]()
        for other, each in enumerate(row):
            if each.opname.startswith("LOAD_FAST") and each.argval == instruction.argval:
                keys = _keys(row, other, seen)
                if keys is None:
                    return None
                found |= keys
        return found
    if instruction.opname in ("LOAD_METHOD", "LOAD_ATTR") and user + 1 < len(row):
        name, argument = instruction.argval, row[user + 1]
        if name == "get" and argument.opname == "LOAD_CONST":
            return frozenset((argument.argval,))
        return GROWS if name == "setdefault" else None
    if user == at + 1:
        return ANY_KEY if instruction.opname == "CONTAINS_OP" else None
    if instruction.opname in ("STORE_SUBSCR", "DELETE_SUBSCR"):
        return frozenset((first.argval,)) if is_key else GROWS
    if instruction.opname == "BINARY_SUBSCR" or (instruction.opname == "BINARY_OP" and instruction.argrepr == "[]"):
        return frozenset((first.argval,)) if is_key else ANY_KEY
    return None


def _user(row: Sequence[dis.Instruction], at: int) -> int | None:
    """The position of the instruction that takes what lies on the stack before; None: it is not known."""
    depth = 0
    for position in range(at, len(row)):
        each = row[position]
        takes = _TAKES.get(each.opname)
        if takes is None:
            if "JUMP" in each.opname or not each.opname.startswith(("LOAD_", "BUILD_")):
                return position if not depth else None
            takes = 1 if each.opname in ("LOAD_ATTR", "LOAD_METHOD") else each.arg if "BUILD" in each.opname else 0
        if (takes or 0) > depth:
            return position
        depth += dis.stack_effect(each.opcode, each.arg)
    return None


# --- Whose code it is -----------------------------------------------------------------------------------------


@cache
def is_own(file: str) -> bool:
    """True for a file that is neither of Python, nor of this package, nor of an installed one; and for cells of
    notebooks and lines that are typed."""
    if not os.path.isfile(file):
        return file.startswith(("<stdin>", "<ipython", "<python-input")) or file.endswith(".py")
    return is_users(file) and "site-packages" not in Path(file).parts


def is_own_module(module: ModuleType) -> bool:
    """True for a module of such a file, and for one that was made by code."""
    file = getattr(module, "__file__", None)
    return is_own(file) if file else getattr(module, "__spec__", None) is None


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_in_operator(frame: FrameType | None) -> bool:
    """True for code of an operator of one's own, which a plan calls as the network does."""
    while frame is not None:
        home = frame.f_globals.get("__name__") or ""
        if home.startswith("torch._library."):
            return home in ("torch._library.custom_ops", "torch._library.fake_impl")
        frame = frame.f_back
    return False


def _is_own_code(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return is_own(file) or (file == "<string>" and frame.f_globals.get("__name__") == "__main__")


@cache
def is_users(file: str) -> bool:
    """True for a file that is neither of Python, nor of PyTorch, nor of this package."""
    return os.path.isfile(file) and not is_foreign(Path(file))


def is_users_class(kind: type) -> bool:
    """True for a class that is neither of Python, nor of PyTorch, nor of this package, but for namespaces."""
    if kind in (SimpleNamespace, argparse.Namespace):
        return True
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    if file is None:
        return _is_mutable(kind) and (module is None or kind.__module__ == "__main__")
    return is_own(file) or is_users(file)


def _is_mutable(kind: type) -> bool:
    """True for a class whose attributes can be set."""
    return bool(kind.__flags__ & _HEAP_TYPE) and not kind.__flags__ & _IMMUTABLE_TYPE


# --- Noting ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def reads_noted(
    modules: Iterable[torch.nn.Module], before: Mapping[int, Mapping[str, Any]],
    called: Callable[[FrameType, Any], None],
) -> Iterator[Reads]:  # fmt: skip
    """Meanwhile what Python code reads is noted.

    Args:
        modules: those of the network.
        before: the attributes of each, by its identity.
        called: is called with the frame before each call of a function of C.
    """
    import torch

    with contextlib.ExitStack() as patches:
        noting = _Noting(patches, before, frozenset(_package(type(each).__module__) for each in modules))
        patches.enter_context(
            mock.patch.object(torch.nn.Module, "__getattribute__", noting.module_attribute(), create=True)
        )
        patches.enter_context(mock.patch.object(type(os.environ), "__getitem__", noting.variable_of_environment()))
        if sys.getprofile() is not None:  # one of C, such as `cProfile`, could not be put back
            note("variables outside of modules are not compared: a profiler is on")
        noting.reads._look = partial(noting.look, called)
        yield noting.reads


class _Noting:
    """Fills what was read."""

    def __init__(
        self, patches: contextlib.ExitStack, before: Mapping[int, Mapping[str, Any]], packages: frozenset[str]
    ) -> None:
        self.patches, self.before, self.packages, self.reads = patches, before, packages, Reads()
        self._codes: dict[CodeType, int] = {}
        """How many more calls of each function are to be looked at."""

    def module_attribute(self) -> Callable[[torch.nn.Module, str], object]:
        import torch

        usual = frozenset((*vars(torch.nn.Module()), *dir(torch.nn.Module)))
        before, seen, absent, meet = self.before, self.reads.modules, self.reads.absent, self.meet

        def read(self: torch.nn.Module, name: str) -> object:
            own = object.__getattribute__(self, "__dict__")
            if name not in usual and name not in own and not any(name in own.get(each, ()) for each in _TABLES):
                absent.setdefault(id(self), set()).add(name)
            value = object.__getattribute__(self, name)
            if name not in usual:
                if name in own:
                    former = before.get(id(self), {}).get(name, NOTHING)
                    read_of = seen.setdefault(id(self), {})
                    read_of[name] = read_of.get(name, False) or value is former
                meet(value)
            return value

        return read

    def variable_of_environment(self) -> Callable[[Any, str], str]:
        former: Any = vars(type(os.environ))["__getitem__"]
        found, reads, noting = self.reads.environment, self.reads, self

        def read(self: Any, key: str) -> str:
            frame: FrameType | None = sys._getframe(1) if reads.is_on else None
            while frame is not None and frame.f_globals.get("__name__") in _FINDING:
                frame = frame.f_back
            if frame is not None and (_is_own_code(frame) or noting.is_of_network(frame)):
                found.add(key)
            value: str = former(self, key)
            return value

        return read

    def is_of_network(self, frame: FrameType) -> bool:
        """True for the code of an installed package that has modules of the network."""
        return _package(frame.f_globals.get("__name__", "")) in self.packages and is_users(frame.f_code.co_filename)

    def look(self, called: Callable[[FrameType, Any], None], frame: FrameType, event: str, what: Any) -> None:
        if event == "c_call":
            called(frame, what)
        if event != "call":
            return
        code = frame.f_code
        left = self._codes.get(code)
        if left is None:
            if _is_own_code(frame) and _is_in_operator(frame):
                return
            left = self._codes[code] = self._first_call(frame, code)
        if left:
            self._codes[code] = left - 1
            for value in [*frame.f_locals.values()]:
                self.meet(value)

    def _first_call(self, frame: FrameType, code: CodeType) -> int:
        """Note a function that is called for the first time, and return how many calls are to be looked at."""
        if code in _calling_back():
            self.reads.in_backward = True
        own = _is_own_code(frame)
        if code.co_name == "<module>" or not (own or self.is_of_network(frame)):  # the former is imported
            return 0
        self.reads.note_code(code)
        place = frame.f_globals
        for name in globals_in(code):
            value = place.get(name, NOTHING)
            if name.startswith("__"):
                continue
            if value is not NOTHING and (own or isinstance(value, (*_PLAIN, Enum))):
                if (id(place), name) not in self.reads.variables:
                    self.reads.variables[id(place), name] = place
                    self.reads.before_variable(place, name)
                self.meet(value)
        return _MOST_CALLS if own else 0

    def meet(self, value: object, depth: int = _DEEPEST) -> None:
        """Note from now on what is read of an object, and of those in a collection."""
        kind = type(value)
        if kind in self.reads.former or kind in _CLOSED:
            return
        if isinstance(value, ModuleType):
            if depth and is_own_module(value):
                for name, each in [*vars(value).items()]:
                    self.meet(NOTHING if name.startswith("__") else each, 1)
            return
        if isinstance(value, list | tuple | set | frozenset | dict | deque):
            if depth and len(value) <= _MOST_MET:
                entries: Iterable[object] = value.values() if isinstance(value, dict) else value
                for each in [*entries]:
                    self.meet(each, depth - 1)
            if kind in _COLLECTIONS:
                return
        self._instrument(kind)

    def _instrument(self, kind: type) -> None:
        import torch

        if issubclass(kind, torch.nn.Module | torch.Tensor | type | Enum | ModuleType):
            return
        if not _is_mutable(kind) or not is_users_class(kind):
            return
        former: Any = kind.__getattribute__
        self.reads.former[kind] = former
        reads, objects, meet = self.reads, self.reads.objects, self.meet

        def noted(self: object, name: str) -> object:
            if reads.is_on:
                objects.setdefault(id(self), set()).add(name)
            value = former(self, name)
            if reads.is_on:
                meet(value)
            return value

        self.patches.enter_context(mock.patch.object(kind, "__getattribute__", noted, create=True))


@cache
def _calling_back() -> frozenset[CodeType]:
    """Functions of PyTorch by which Python code gets into the backward pass."""
    import torch
    from torch.utils.hooks import BackwardHook

    apply: Any = torch.autograd.Function.apply  # a method of the class
    hooks = torch.Tensor.register_hook, BackwardHook.setup_input_hook, torch.autograd.graph.register_multi_grad_hook
    return frozenset((apply.__func__.__code__, *(each.__code__ for each in hooks)))


_FINDING = "os", "_collections_abc", "collections.abc"
"""Modules of Python by which variables of the environment are found."""
_TABLES = "_parameters", "_buffers", "_modules"
_COLLECTIONS = list, tuple, set, frozenset, dict, deque
_CLOSED = frozenset(_PLAIN)
