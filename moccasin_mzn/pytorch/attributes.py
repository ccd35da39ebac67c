"""What a network reads of its own attributes while it is traced: a plan is for these values. ::

    if self.dropout.p > 0: ...        compared before each step: another value is refused
    self.count += 1                   refused when the plan is made: a plan would not do it
    self.latest = hidden              refused likewise, and put back

Submodules and hooks are compared as well. Hooks on submodules are refused if they print or keep
something: a plan does not call them, it does what they did to tensors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from operator import is_
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock

from moccasin_mzn.errors import shown
from moccasin_mzn.pytorch.errors import PlanError, UntraceableError

if TYPE_CHECKING:
    import torch

_PLAIN = bool, int, float, complex, str, bytes, type(None), Enum
_MOST = 300
"""An object with more attributes, such as a tokenizer, is compared by itself only."""
_HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
_RECURRENT = "_flat_weights", "_flat_weight_refs", "_flat_weights_names", "_all_weights"
_OWN = frozenset(("_parameters", "_buffers", "_modules", *_RECURRENT, *_HOOKS))
"""Attributes of PyTorch's own, which are looked at as such; recurrent layers have their parameters in a list, too."""
_NOTHING = object()
_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8
"""Flags of classes, as Python's C interface has them: Python code makes those of the heap, and may change the mutable
ones."""


@dataclass
class Attributes:
    """What a plan relies on besides tensors."""

    read: list[tuple[str, Mapping[str, object], str, object]] = field(default_factory=list)
    """The name for messages, where the attribute is, its name there, and its value."""
    submodules: list[tuple[str, Mapping[str, object], tuple[object, ...]]] = field(default_factory=list)
    """The name of a module, its submodules by name, and which they were."""
    hooks: list[Mapping[object, object]] = field(default_factory=list)
    """All hooks of submodules, by kind and module."""
    hook_count: int = 0
    after_one_run: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Attributes of each module when the network had run once: what is the same after the second run may stay."""

    def ran_once(self, model: torch.nn.Module) -> None:
        """Note that the network has run for the first time."""
        self.after_one_run = {name: dict(vars(module)) for name, module in model.named_modules()}

    def check(self) -> None:
        """Refuse a network that is not as it was.

        Raises:
            PlanError: an attribute, a submodule or a hook is another one.
        """
        for called, place, name, value in self.read:
            now = place.get(name, _NOTHING)
            if now is not value and not _equal(now, value) and not _same(now, value):
                found = "missing" if now is _NOTHING else shown(now)
                former = "missing" if value is _NOTHING else shown(value)
                raise PlanError(f"planned with {called} = {former}, it is {found} now: make a new plan")
        for called, place, those in self.submodules:
            if len(place) != len(those) or not all(map(is_, place.values(), those)):
                raise PlanError(f"{called} has other submodules than when the plan was made: make a new plan")
        if sum(map(len, self.hooks)) != self.hook_count:
            raise PlanError("a submodule has another number of hooks than when the plan was made: make a new plan")


def _equal(one: object, other: object) -> bool:
    return type(one) is type(other) and is_plain(other) and one == other


def is_plain(value: object) -> bool:
    """True for values that are compared by `==`: numbers, texts, and collections of them."""
    import torch

    if isinstance(value, list | tuple | set | frozenset):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(is_plain(key) and is_plain(each) for key, each in value.items())
    return isinstance(value, (*_PLAIN, torch.dtype, torch.device, torch.memory_format))


@contextlib.contextmanager
def attributes_read(model: torch.nn.Module) -> Iterator[Attributes]:
    """Note what is read while a step is traced, and put back what it changes.

    Raises:
        PlanError: the network changes an attribute each time, or keeps a tensor in one; or a submodule has a hook.
    """
    modules = dict(model.named_modules())
    hooks = _check_hooks(modules)
    found, seen, inner = Attributes(), dict[tuple[int, str], bool](), dict[int, set[str]]()
    before = {name: dict(vars(module)) for name, module in modules.items()}
    sizes = {
        (name, key): len(value)
        for name, own in before.items()
        for key, value in own.items()
        if key not in _OWN and isinstance(value, list | dict | set)
    }
    problem, refused = "", None
    try:
        with _recording({id(module): before[name] for name, module in modules.items()}, seen, inner):
            yield found
    except PlanError as error:
        refused = error  # perhaps for what such an attribute has led to
    finally:
        problem = _written(modules, before, found.after_one_run, seen) or _grown(modules, sizes)
        found.after_one_run.clear()  # it may have tensors
    if problem:
        text = f"the network {problem}, which a plan would not do: return it, or leave it out in training"
        raise UntraceableError(text) from refused
    if refused is not None:
        raise refused
    _check_kept(hooks)
    _note_all(found, modules, seen, inner)


def _note_all(
    found: Attributes, modules: Mapping[str, torch.nn.Module], seen: Mapping[tuple[int, str], bool],
    inner: Mapping[int, set[str]],
) -> None:  # fmt: skip
    """Note what was read, and besides it the submodules, forward functions and hooks of all modules."""
    names = {id(module): name for name, module in modules.items()}
    objects: dict[int, None] = {}
    for number, name in seen:
        if number not in names or name in _OWN or (name == "forward" and not names[number]):
            continue
        where, place = names[number], vars(modules[names[number]])
        made_anew = _has_hooks(modules[where]) and _holds_tensor(place.get(name))
        if seen[number, name] and not made_anew:
            _note(found, _called(where, name), place, name, objects, inner)
    found.submodules = [
        (f"module '{name}'" if name else "the network", module._modules, tuple(module._modules.values()))
        for name, module in modules.items()
    ]
    found.read += [
        (_called(name, "forward"), vars(module), "forward", vars(module).get("forward", _NOTHING))
        for name, module in modules.items()
        if name  # that of the network is what runs a plan
    ]
    found.hooks = [vars(module)[kind] for name, module in modules.items() if name for kind in _HOOKS]
    found.hook_count = sum(map(len, found.hooks))


def _note(
    found: Attributes, called: str, place: Mapping[str, Any], name: str, objects: dict[int, None],
    inner: Mapping[int, set[str]],
) -> None:  # fmt: skip
    """Note an attribute by its value, or an object with its own plain attributes that were read."""
    value = place.get(name)
    if is_plain(value):
        kept = type(value)(value) if isinstance(value, list | set | dict) else value  # they may be changed in place
        found.read.append((called, place, name, kept))
        return
    found.read.append((called, place, name, value))
    own = getattr(value, "__dict__", None)
    if (
        isinstance(value, type | FunctionType | BuiltinFunctionType)
        or not isinstance(own, dict)
        or id(value) in objects
    ):
        return
    objects[id(value)] = None
    if len(own) <= _MOST and not _is_module(value):
        plain = {key: own.get(key, _NOTHING) for key in _names_read(value, inner.get(id(value), set()))}
        found.read += [
            (f"{called[:-1]}.{key}'", own, key, each) for key, each in plain.items()
            if each is _NOTHING or (is_plain(each) and not isinstance(each, list | set | dict))
        ]  # fmt: skip


def _names_read(value: object, names: set[str]) -> list[str]:
    """Attributes of an object itself that were read by these names: all, where its class has its own way to find them.

    Configurations of transformers have a dictionary of other names, `attribute_map`.
    """
    kind, aliases = type(value), getattr(type(value), "attribute_map", None)
    own_way = kind.__getattribute__ is not object.__getattribute__ or hasattr(kind, "__getattr__")
    if "__dict__" in names or not _is_mutable(kind) or (own_way and not isinstance(aliases, dict)):
        return [*vars(value)]
    found = sorted({aliases.get(name, name) if isinstance(aliases, dict) else name for name in names})
    return [name for name in found if name in vars(value) or not hasattr(kind, name)]


def _is_mutable(kind: type) -> bool:
    """True for a class whose attributes can be set."""
    return bool(kind.__flags__ & _HEAP_TYPE) and not kind.__flags__ & _IMMUTABLE_TYPE


def _is_module(value: object) -> bool:
    import torch

    return isinstance(value, torch.nn.Module | torch.Tensor)


@contextlib.contextmanager
def _recording(
    before: Mapping[int, dict[str, Any]], seen: dict[tuple[int, str], bool], inner: dict[int, set[str]]
) -> Iterator[None]:
    """Meanwhile attributes of modules that are read are noted, but those that every module has.

    Args:
        before: attributes of each module, by its identity.
        seen: filled with those that are read; True: with the value of before, not one that was written meanwhile.
        inner: filled with what is read of objects that modules have, such as a configuration, by their identity.
    """
    import torch

    watched: set[type] = set()

    def watch(kind: type) -> None:
        """Note what is read of objects of a class that is written in Python."""
        watched.add(kind)
        if not _is_mutable(kind) or issubclass(kind, torch.nn.Module | torch.Tensor | type | Enum):
            return
        former: Any = kind.__getattribute__

        def noted(self: object, name: str) -> object:
            inner.setdefault(id(self), set()).add(name)
            return former(self, name)

        patches.enter_context(mock.patch.object(kind, "__getattribute__", noted, create=True))

    usual = frozenset(vars(torch.nn.Module()))

    def read(self: torch.nn.Module, name: str) -> object:
        value = object.__getattribute__(self, name)
        if name not in usual and name in object.__getattribute__(self, "__dict__"):
            former = before.get(id(self), {}).get(name, _NOTHING)
            seen[id(self), name] = seen.get((id(self), name), False) or value is former
            if type(value) not in watched:
                watch(type(value))
        return value

    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(torch.nn.Module, "__getattribute__", read, create=True))
        yield


def _check_hooks(modules: Mapping[str, torch.nn.Module]) -> list[tuple[str, object, list[object]]]:
    """Refuse hooks that are no code of Python's, or print; return the others: module, hook, what it can change.

    PyTorch's own are passed over.
    """
    found: list[tuple[str, object, list[object]]] = []
    for name, module in modules.items():
        for kind in _HOOKS if name else ():
            for hook in vars(module)[kind].values():
                if _home(hook).startswith("torch."):
                    continue
                inner = hook.func if isinstance(hook, partial) else hook
                code = getattr(getattr(inner, "__func__", inner), "__code__", None)
                if code is None or {"print", "open", "input"} & set(code.co_names):
                    raise UntraceableError(
                        f"module '{name}' has a hook ({_home(hook)}), which a plan would not call: remove it"
                    )
                found.append((name, hook, _changeable(hook)))
    return found


def _check_kept(hooks: Sequence[tuple[str, object, list[object]]]) -> None:
    """Refuse hooks that have changed what they can reach besides tensors while the step was traced."""
    for name, hook, before in hooks:
        if _changeable(hook) != before:
            text = (
                f"module '{name}' has a hook ({_home(hook)}) that keeps something, which a plan would not do: remove it"
            )
            raise UntraceableError(text)


def _changeable(hook: object) -> list[object]:
    """What a hook can change: sizes of collections and plain values in its closure, arguments, object and globals."""
    reached: list[object] = []
    if isinstance(hook, partial):
        reached += [*hook.args, *hook.keywords.values()]
        hook = hook.func
    reached.append(getattr(hook, "__self__", None))
    function = getattr(hook, "__func__", hook)
    reached += [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if _is_filled(cell)]
    spoken = getattr(getattr(function, "__code__", None), "co_names", ())
    reached += [getattr(function, "__globals__", {}).get(name) for name in spoken]
    inner = [each for value in reached if not _is_module(value) for each in _parts(value)]
    return [len(each) if isinstance(each, list | dict | set) else each for each in inner]


def _parts(value: object) -> list[object]:
    """A collection or plain value itself, those in an object's attributes; nothing of code."""
    if isinstance(value, list | dict | set) or is_plain(value):
        return [value]
    own = getattr(value, "__dict__", None)
    if isinstance(value, type | ModuleType | FunctionType | BuiltinFunctionType) or not isinstance(own, dict):
        return []
    return [each for each in own.values() if isinstance(each, list | dict | set) or is_plain(each)]


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not _NOTHING
    except ValueError:  # a variable without a value yet
        return False


def _has_hooks(module: torch.nn.Module) -> bool:
    return any(vars(module)[kind] for kind in _HOOKS)


def _home(hook: object) -> str:
    """The module that a hook is defined in."""
    inner = getattr(hook, "__wrapped__", getattr(hook, "func", hook))
    return str(getattr(inner, "__module__", None) or type(inner).__module__)


def _written(
    modules: Mapping[str, torch.nn.Module], before: Mapping[str, dict[str, Any]], once: Mapping[str, dict[str, Any]],
    seen: Mapping[tuple[int, str], bool],
) -> str:  # fmt: skip
    """Put back what was written while the step was traced, and return what a plan would not do; empty: nothing.

    A plain value that the second run does not change, as in a cache, stays. Tensors may be kept for the same step, to
    be read there after they were written, or be what they were.
    """
    problem = ""
    for name, module in modules.items():
        own, former = vars(module), before[name]
        for key in [key for key in own if own[key] is not former.get(key, _NOTHING) and key not in _OWN]:
            value, where = own[key], _called(name, key)
            tensors = _holds_tensor(value)
            if not tensors and is_plain(value) and _equal(value, once.get(name, former).get(key, _NOTHING)):
                continue
            within = seen.get((id(module), key)) is False  # written before it was read
            if tensors and not within and not _has_hooks(module) and not _same(value, former.get(key, _NOTHING)):
                problem = problem or f"keeps a tensor in its attribute {where}"
            elif not tensors and is_plain(value):
                problem = problem or f"changes its attribute {where}"
            if key in former:
                own[key] = former[key]
            elif tensors or is_plain(value):
                del own[key]
    return problem


def _grown(modules: Mapping[str, torch.nn.Module], sizes: Mapping[tuple[str, str], int]) -> str:
    """Put lists back that have grown, and return which one has; empty: none."""
    problem = ""
    for (name, key), size in sizes.items():
        value = vars(modules[name]).get(key)
        if isinstance(value, list | dict | set) and len(value) != size:
            problem = problem or f"changes its attribute {_called(name, key)}"
            if isinstance(value, list):
                del value[size:]
    return problem


def _same(value: object, former: object) -> bool:
    """True for the same tensors in the same structure, bit for bit."""
    import torch
    from torch.utils._pytree import tree_flatten

    (these, form), (those, other) = tree_flatten(value), tree_flatten(former)
    if form != other or any(map(_is_fake, these)):
        return False
    return all(
        torch.equal(one, its) if isinstance(one, torch.Tensor) and isinstance(its, torch.Tensor) else one is its
        for one, its in zip(these, those, strict=True)
    )


def _is_fake(value: object) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)


def _called(module: str, name: str) -> str:
    """An attribute, for messages."""
    return f"'{module}.{name}'" if module else f"'{name}'"


def _holds_tensor(value: object) -> bool:
    import torch
    from torch.utils._pytree import tree_leaves

    values: Sequence[object] = tree_leaves(value)
    return any(isinstance(each, torch.Tensor) for each in values)
