"""The call that a step is planned for, and others that mean the same. ::

    planned   step(x, mask=m)
    the same  step(mask=m, x=x)      step(x, m)      step(x, mask=m, scale=1.0), where 1.0 is the default

How arguments are arranged is found out once for each way to write a call. What really differs is refused, by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import shown
from moccasin_mzn.pytorch.call import TENSOR, Step, Structure, misfit
from moccasin_mzn.pytorch.errors import PlanError

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

_Key = int | str
"""Where an argument is in a call: its position or its keyword."""
_Form = tuple[int, tuple[str, ...]]
"""How a call is written: the number of positional arguments, and the keywords in their order."""
_TARGET = "the target"
_RETURN_DICT = "return_dict"
"""An argument of networks that have a `config`: left out or None, it is the config's."""


class _Missing:
    def __repr__(self) -> str:
        return "left out"


_MISSING = _Missing()


@dataclass(frozen=True)
class _Arrangement:
    """How a call is brought into the form of the planned one."""

    sources: dict[_Key, tuple[_Key | None, object]]
    """For each argument of the planned call where it is in the other one; None: nowhere, its default is taken."""
    others: tuple[tuple[_Key, str, object], ...]
    """Arguments of the call that the planned one lacks, with their names and defaults."""


@dataclass(frozen=True, eq=False)
class Call:
    """The call that a step is planned for."""

    step: Step
    structure: Structure
    """The structure of the positional arguments and those by name."""
    _arrangements: dict[_Form, _Arrangement | None] = field(default_factory=dict, repr=False)

    @cached_property
    def _planned(self) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
        """The arguments, with empty tensors."""
        import torch

        args, kwargs = self.structure.filled([torch.empty(0)] * self.structure.rest.count(TENSOR))
        return args, kwargs

    @cached_property
    def _form(self) -> _Form:
        args, kwargs = self._planned
        return len(args), tuple(kwargs)

    @cached_property
    def _flat(self) -> bool:
        """True if each argument is a tensor or a leaf itself."""
        args, kwargs = self._planned
        return len(self.structure.rest) == len(args) + len(kwargs) and all(
            Structure.of(each)[0].tree.is_leaf() for each in (*args, *kwargs.values())
        )

    @cached_property
    def _signature(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self.step.model.forward)
        except ValueError:  # nothing is known of it
            return None

    def tensors(self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> list[torch.Tensor]:
        """The tensors of a call, in the order of the planned one.

        Raises:
            PlanError: it has other arguments.
        """
        import torch

        args, kwargs = self.arranged(args, kwargs)
        if self._flat:
            given, rest = (*args, *kwargs.values()), self.structure.rest
            tensors = [each for each in given if isinstance(each, torch.Tensor)]
            if len(given) == len(rest) and all(
                isinstance(its, torch.Tensor) if mine is TENSOR else _same(mine, its)
                for mine, its in zip(rest, given, strict=True)
            ):
                return tensors
        found, tensors = Structure.of((args, kwargs))
        if not self.structure.matches(found):
            raise self._refusal(args, kwargs)
        return tensors

    def arranged(
        self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
        """The arguments of a call as the planned one has them: in its order, by position or by name, no others.

        Raises:
            PlanError: an argument that the planned call lacks is not its default, or one that it has is missing.
        """
        if len(args) == self._form[0] and tuple(kwargs) == self._form[1]:
            return args, kwargs
        form = len(args), tuple(kwargs)
        if form not in self._arrangements:
            self._arrangements[form] = self._arrangement(form)
        way = self._arrangements[form]
        if way is None:
            raise self._refusal(args, kwargs)
        given: dict[_Key, PyTree] = dict(enumerate(args)) | dict(kwargs)
        if any(not self._is_default(given[key], name, default) for key, name, default in way.others):
            raise self._refusal(args, kwargs)
        found = {key: default if source is None else given[source] for key, (source, default) in way.sources.items()}
        return tuple(found[at] for at in range(self._form[0])), {name: found[name] for name in self._form[1]}

    def _arrangement(self, form: _Form) -> _Arrangement | None:
        """How such a call is brought into the form of the planned one; None: it cannot be."""
        planned, given = self._named(self._form), self._named(form)
        if planned is None or given is None:
            return None
        sources: dict[_Key, tuple[_Key | None, object]] = {}
        for name, key in planned.items():
            sources[key] = given.get(name), self._default(name)
            if sources[key] == (None, _MISSING):
                return None
        others = tuple((key, name, self._default(name)) for name, key in given.items() if name not in planned)
        return _Arrangement(sources, others)

    def _named(self, form: _Form) -> dict[str, _Key] | None:
        """The parameters of the network's `forward` that a call has arguments for; None: it cannot be called so."""
        count, keywords = form
        positions = range(count - self.step.takes_target)
        if self._signature is None or count < self.step.takes_target:
            return None
        try:
            bound = self._signature.bind(*positions, **{name: name for name in keywords})
        except TypeError:
            return None
        found: dict[str, _Key] = {}
        for name, value in bound.arguments.items():
            if isinstance(value, tuple):
                found |= {f"{name}[{at}]": position for at, position in enumerate(value)}
            elif isinstance(value, dict):
                found |= value
            else:
                found[name] = value
        return found | ({_TARGET: count - 1} if self.step.takes_target else {})

    def _default(self, name: str) -> object:
        parameter = None if self._signature is None else self._signature.parameters.get(name)
        default = _MISSING if parameter is None or parameter.default is parameter.empty else parameter.default
        if name == _RETURN_DICT and (default is None or default is _MISSING):
            return getattr(getattr(self.step.model, "config", None), name, default)
        return default

    def _is_default(self, value: object, name: str, default: object) -> bool:
        return _same(default, value) or (name == _RETURN_DICT and value is None)

    def _refusal(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> PlanError:
        """The error for a call with other arguments, which names them."""
        wrong = misfit(self.step, args, kwargs)
        if wrong is not None:
            return PlanError(wrong)
        planned, given = self._by_name(*self._planned), self._by_name(args, kwargs)
        texts = []
        for name in {**planned, **given}:
            was, now = (values.get(name, self._default(name)) for values in (planned, given))
            if not Structure.of(was)[0].matches(Structure.of(now)[0]):
                called = name if " " in name else f"'{name}'"
                texts.append(f"{called} was {_text(was)} and is {_text(now)}")
        what = ": " + "; ".join(texts) if texts else ""
        text = f"the step is called with other arguments than it was planned for{what}: make a plan for these"
        return PlanError(text, Page.SHAPES)

    def _by_name(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> dict[str, PyTree]:
        """The arguments of a call by the names of parameters, or by their places where those are not known."""
        given: dict[_Key, PyTree] = dict(enumerate(args)) | dict(kwargs)
        named = self._named((len(args), tuple(kwargs)))
        if named is None:
            return {f"input {key}" if isinstance(key, int) else key: value for key, value in given.items()}
        return {name: given[key] for name, key in named.items()}


def _same(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


def _text(value: PyTree) -> str:
    import torch
    from torch.utils._pytree import tree_map

    return shown(tree_map(lambda leaf: TENSOR if isinstance(leaf, torch.Tensor) else leaf, value))
