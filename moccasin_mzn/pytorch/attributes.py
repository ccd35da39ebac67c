"""What a network reads while it is traced: a plan is for these values. ::

    if self.dropout.p > 0: ...        compared before each step: another value is refused
    self.count += 1                   refused when the plan is made: a plan would not do it
    self.latest = hidden              refused likewise, and put back

Submodules and hooks are compared as well. Hooks on submodules are refused if they print or keep
something: a plan does not call them, it does what they did to tensors.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import is_
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from moccasin_mzn.pytorch.errors import PlanError, UntraceableError
from moccasin_mzn.pytorch.random_state import RandomState
from moccasin_mzn.pytorch.reads import NOTHING, Reads, reads_noted
from moccasin_mzn.pytorch.repetition import Calls
from moccasin_mzn.pytorch.watching import Follower, Watch, equal, is_plain, same_tensors
from moccasin_mzn.pytorch.writes import Writes

if TYPE_CHECKING:
    import torch

_HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
_RECURRENT = "_flat_weights", "_flat_weight_refs", "_flat_weights_names", "_all_weights"
_OWN = frozenset(("_parameters", "_buffers", "_modules", *_RECURRENT, *_HOOKS))
"""Attributes of PyTorch's own, which are looked at as such; recurrent layers have their parameters in a list, too."""


@dataclass
class Attributes:
    """What a plan relies on besides its tensors."""

    random: RandomState
    """What the step does to random states."""
    watch: Watch = field(default_factory=Watch)
    """Values that are compared."""
    submodules: list[tuple[str, Mapping[str, object], tuple[object, ...]]] = field(default_factory=list)
    """The name of a module, its submodules by name, and which they were."""
    hooks: list[Mapping[int, object]] = field(default_factory=list)
    """All hooks of submodules, by kind and module, with their numbers."""
    hook_numbers: tuple[int, ...] = ()
    """No two hooks have the same in a process."""

    def check(self) -> None:
        """Refuse a network that is not as it was.

        Raises:
            PlanError: an attribute, a submodule or a hook is another one.
        """
        self.watch.check()
        for called, place, those in self.submodules:
            if len(place) != len(those) or (those and not all(map(is_, place.values(), those))):
                raise PlanError(f"{called} has other submodules than when the plan was made: make a new plan")
        numbers = tuple(chain.from_iterable(self.hooks))
        if numbers != self.hook_numbers:
            what = "another number of" if len(numbers) != len(self.hook_numbers) else "other"
            raise PlanError(f"a submodule has {what} hooks than when the plan was made: make a new plan")


@dataclass
class Reading:
    """A step while it is traced, and what it has read."""

    model: torch.nn.Module
    roots: Mapping[str, object]
    """What is called besides modules, by name: the loss, and arguments that are no tensors."""
    found: Attributes
    """Filled at the end."""
    reads: Reads = field(default_factory=Reads)
    after_one_run: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Attributes of each module when the network had run once: what is the same after the second run may stay."""
    first: Watch = field(default_factory=Watch)
    """What was read in the first run; what is another after the second changes in each."""
    writes: Writes | None = None
    """What there was before the first run."""

    @contextlib.contextmanager
    def running(self, variables: bool) -> Iterator[None]:
        """The step runs meanwhile, or its backward pass; see `Reads.running`."""
        with self.found.random.running(), self.reads.running(variables):
            yield

    def ran_once(self) -> None:
        """Note that the network has run for the first time."""
        self.after_one_run = {name: dict(vars(module)) for name, module in self.model.named_modules()}
        self.first = self.watched()

    def traced(self, first: Calls, later: Calls) -> None:
        """Refuse a network that did something else before it had run than when it was traced.

        Args:
            first: operators of the first run.
            later: those that were traced.

        Raises:
            UntraceableError: names what its first run has changed.
        """
        if self.writes is not None:
            self.writes.check_settled(self.first, first, later)

    def watched(self) -> Watch:
        """The values that were read, as they are now."""
        modules, watch, reads = dict(self.model.named_modules()), Watch(), self.reads
        follower = Follower(watch, reads, modules.values())
        for where, module in modules.items():
            _follow_module(follower, where, module)
        for kind in {type(module): None for module in modules.values()}:
            follower.follow(f"'{kind.__name__}'", kind)
        for (_, name), place in [*reads.variables.items()]:
            follower.named(f"'{name}'", place, name)
        for name in sorted(reads.environment):
            fetch = partial(os.environ.get, name, NOTHING)
            follower.entry(f"'os.environ[{name!r}]'", os.environ, name, fetch)
        for name, (home, present) in _OF_PROCESS.items():
            if name in reads.names:
                follower.entry(f"'{home}.{name}'", _OF_PROCESS, name, present)
        for name, root in self.roots.items():
            follower.follow(f"'{name}'", root)
        for generator in self.found.random.seeds:
            follower.entry("the initial seed of PyTorch", generator, "initial seed", generator.initial_seed)
        return watch


def _threads() -> int:
    import torch

    return torch.get_num_threads()


_OF_PROCESS: dict[str, tuple[str, Callable[[], object]]] = {
    "argv": ("sys", lambda: list(sys.argv)),
    "get_num_threads": ("torch", _threads),
}
"""What is compared if code that has run names it: the module that has it, and its value."""


def _follow_module(follower: Follower, where: str, module: torch.nn.Module) -> None:
    """Watch what was read of a module of the network, and its hooks."""
    own = vars(module)
    for name, unwritten in follower.reads.modules.get(id(module), {}).items():
        if name in _OWN or (name == "forward" and not where):  # that of the network is what runs a plan
            continue
        if unwritten and not (_has_hooks(module) and _holds_tensor(own.get(name))):  # a hook makes it in each step
            follower.named(_called(where, name), own, name)
    if not follower.reads.names.isdisjoint(("__dict__", "vars")):
        for name in sorted(follower.reads.names.intersection(own).difference(_OWN, ("forward",))):
            follower.named(_called(where, name), own, name)
    absent = follower.reads.absent.get(id(module), set()) | ({"forward"} if where else set())
    for name in sorted(absent - (set() if where else {"forward"})):
        if name not in own or name == "forward":
            follower.named(_called(where, name), own, name)
    for kind in _HOOKS:
        for hook in own[kind].values():
            follower.follow(f"a hook of '{where}'", hook)


@contextlib.contextmanager
def attributes_read(model: torch.nn.Module, roots: Mapping[str, object]) -> Iterator[Reading]:
    """Note what is read while a step is traced, and put back what it changes.

    Args:
        roots: what is called besides modules, by name: the loss, and arguments that are no tensors.

    Raises:
        PlanError: the network changes an attribute each time, or keeps a tensor in one; or a submodule has a hook.
    """
    modules = dict(model.named_modules())
    hooks = _check_hooks(modules)
    found = Attributes(RandomState(model))
    reading = Reading(model, roots, found)
    before = {name: dict(vars(module)) for name, module in modules.items()}
    sizes = {
        (name, key): len(value)
        for name, own in before.items()
        for key, value in own.items()
        if key not in _OWN and isinstance(value, list | dict | set)
    }
    problem, refused = "", None
    try:
        by_identity = {id(module): before[name] for name, module in modules.items()}
        with reads_noted(modules.values(), by_identity, found.random.called) as reading.reads:
            reading.writes = Writes(modules.values(), _OWN, roots.values(), reading.reads)
            reading.reads.before_variable = reading.writes.variable
            yield reading
        reading.writes.check_repeated(reading.first)
    except PlanError as error:
        refused = error  # perhaps for what such an attribute has led to
    finally:
        problem = _written(modules, before, reading.after_one_run, reading.reads.modules) or _grown(modules, sizes)
        reading.after_one_run.clear()  # it may have tensors
        if reading.writes is not None:
            if problem or refused is not None:
                reading.writes.put_back(reading.first)
            reading.writes.clear()
    if problem:
        text = f"the network {problem}, which a plan would not do: return it, or leave it out in training"
        raise UntraceableError(text) from refused
    if refused is not None:
        raise refused
    _check_kept(hooks)
    _note_all(reading, modules)


def _note_all(reading: Reading, modules: Mapping[str, torch.nn.Module]) -> None:
    """Note what was read, but for what changes in each run, and the submodules and hooks of all modules."""
    found, changing = reading.found, reading.first.changed()
    found.watch = reading.watched()
    found.watch.fake.clear()
    for key in changing:
        found.watch.found.pop(key, None)
    found.submodules = [
        (f"module '{name}'" if name else "the network", module._modules, tuple(module._modules.values()))
        for name, module in modules.items()
    ]
    found.hooks = [vars(module)[kind] for name, module in modules.items() if name for kind in _HOOKS]
    found.hook_numbers = tuple(chain.from_iterable(found.hooks))


def _is_module(value: object) -> bool:
    import torch

    return isinstance(value, torch.nn.Module | torch.Tensor)


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
        return cell.cell_contents is not NOTHING
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
    seen: Mapping[int, Mapping[str, bool]],
) -> str:  # fmt: skip
    """Put back what was written while the step was traced, and return what a plan would not do; empty: nothing.

    A plain value that the second run does not change, as in a cache, stays. Tensors may be kept for the same step, to
    be read there after they were written, or be what they were.
    """
    problem = ""
    for name, module in modules.items():
        own, former = vars(module), before[name]
        for key in [key for key in own if own[key] is not former.get(key, NOTHING) and key not in _OWN]:
            value, where = own[key], _called(name, key)
            tensors = _holds_tensor(value)
            if not tensors and is_plain(value) and equal(value, once.get(name, former).get(key, NOTHING)):
                continue
            within = seen.get(id(module), {}).get(key) is False  # written before it was read
            if tensors and not within and not _has_hooks(module) and not _same(value, former.get(key, NOTHING)):
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
    return bool(form == other) and all(
        same_tensors(one, its) if isinstance(one, torch.Tensor) and isinstance(its, torch.Tensor) else one is its
        for one, its in zip(these, those, strict=True)
    )


def _called(module: str, name: str) -> str:
    """An attribute, for messages."""
    return f"'{module}.{name}'" if module else f"'{name}'"


def _holds_tensor(value: object) -> bool:
    import torch
    from torch.utils._pytree import tree_leaves

    values: Sequence[object] = tree_leaves(value)
    return any(isinstance(each, torch.Tensor) for each in values)
