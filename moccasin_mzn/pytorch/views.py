"""Views of the same memory, made once for all who read them: on small tensors they take as long as what is computed.

A view keeps no memory longer than its last reader, who reads that memory as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from moccasin_mzn.pytorch.instructions import Instruction, Value


def shared(instructions: Sequence[Instruction], results: Iterable[Value]) -> list[Instruction]:
    """With each view but once, and without those that are what they view.

    Args:
        results: values that stay, whatever they are.
    """
    import torch

    found: list[Instruction] = []
    known: dict[object, Value] = {}
    same: dict[Value, Value] = {}
    stays = set(results)
    for each in instructions:
        args, kwargs = _with(each.args, same), _with(each.kwargs, same)
        call = replace(each, args=args, kwargs=kwargs)
        if _is_view(call) and call.value not in stays:
            seen = args[0] if call.target is torch.ops.aten.detach.default else known.setdefault(_key(call), call.value)
            if seen is not call.value:
                same[call.value] = seen
                continue
        found.append(call)
    return found


def _is_view(call: Instruction) -> bool:
    storage = call.value.storage
    return call.pure and storage is not None and any(value.storage is storage for value in call.reads)


def _key(call: Instruction) -> object:
    return call.target, _part(call.args), _part(call.kwargs)


def _part(argument: Any) -> object:
    if isinstance(argument, (tuple, list)):
        return tuple(_part(each) for each in argument)
    if isinstance(argument, Mapping):
        return tuple((name, _part(each)) for name, each in argument.items())
    return argument if isinstance(argument, Value) else (type(argument), repr(argument))


def _with(argument: Any, same: Mapping[Value, Value]) -> Any:
    """The argument with the values that are taken instead of others."""
    if isinstance(argument, Value):
        return same.get(argument, argument)
    if isinstance(argument, (tuple, list)):
        return type(argument)(_with(each, same) for each in argument)
    if isinstance(argument, Mapping):
        return {name: _with(each, same) for name, each in argument.items()}
    return argument
