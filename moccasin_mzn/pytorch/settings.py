"""Settings of PyTorch that decide which operators a step calls: a plan is for those that it was made under.

Settings that operators themselves look at (`allow_tf32`, `set_num_threads`, oneDNN, cuDNN) are followed: a plan calls
the same operators.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from moccasin_mzn.pytorch.errors import PlanError, UntraceableError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Settings:
    """What is compared before each step."""

    default_dtype: torch.dtype
    default_device: str
    deterministic: bool
    attention: tuple[object, ...]
    """Which backends of attention are allowed, and their order."""

    @classmethod
    def now(cls) -> Settings:
        import torch

        backends, own = torch.backends.cuda, torch._C
        attention = (
            backends.flash_sdp_enabled(), backends.mem_efficient_sdp_enabled(), backends.math_sdp_enabled(),
            backends.cudnn_sdp_enabled(), *own._get_sdp_priority_order(),
        )  # fmt: skip
        device = str(torch.get_default_device()) if own._len_torch_function_stack() else "cpu"  # which takes long
        return cls(torch.get_default_dtype(), device, torch.are_deterministic_algorithms_enabled(), attention)

    def check(self) -> None:
        """Refuse other settings, hooks of all modules, and hooks for saved tensors that PyTorch does not have itself.

        Raises:
            PlanError: one is another.
        """
        now = Settings.now()
        if now != self:
            for name in (each.name for each in fields(self)):
                mine, its = getattr(self, name), getattr(now, name)
                if mine != its:
                    raise PlanError(f"planned with {_TEXTS[name]} {_text(mine)}, called with {_text(its)}")
        if global_hooks():
            raise PlanError("a hook of all modules (register_module_...) is set, which a plan would not call")
        hooks = _saved_tensors_hooks()
        if hooks and not hooks.startswith("torch."):  # its own give back what they get: save_on_cpu, checkpoints
            raise PlanError(f"hooks for saved tensors are on ({hooks}), which a plan would not call: take them out")


def _saved_tensors_hooks() -> str:
    """The first of the hooks for saved tensors that are on, with its module and line; empty: there are none."""
    import torch

    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)  # not public
    hooks = top(True) if top is not None else None
    if hooks is None:
        return ""
    pack = hooks[0]
    home = getattr(pack, "__module__", None) or type(pack).__module__
    code = getattr(getattr(pack, "__func__", pack), "__code__", None)
    line = "" if code is None else f", {Path(code.co_filename).name}:{code.co_firstlineno}"
    return f"{home}.{getattr(pack, '__qualname__', type(pack).__qualname__)}{line}"


_TEXTS = {
    "default_dtype": "default dtype",
    "default_device": "default device",
    "deterministic": "deterministic algorithms",
    "attention": "attention backends (flash, memory efficient, math, cuDNN, order)",
}


def _text(value: object) -> str:
    import torch

    return str(value).removeprefix("torch.") if isinstance(value, torch.dtype | torch.device) else repr(value)


def global_hooks() -> list[object]:
    """The hooks of all modules that are set."""
    from torch.nn.modules import module as own

    kinds = own._global_forward_hooks, own._global_forward_pre_hooks, own._global_backward_hooks
    return [hook for kind in (*kinds, own._global_backward_pre_hooks) for hook in kind.values()]


def check_no_global_hooks() -> None:
    """Refuse hooks of all modules, and hooks for saved tensors, when a plan is made.

    Raises:
        UntraceableError: there is one, names it.
    """
    for hook in global_hooks():
        name = getattr(hook, "__qualname__", type(hook).__name__)
        home = getattr(hook, "__module__", None) or type(hook).__module__
        text = f"a hook of all modules ({name} of {home}) is set by register_module_..., which a plan would not call"
        raise UntraceableError(f"{text}: remove it")
    if hooks := _saved_tensors_hooks():
        raise UntraceableError(f"hooks for saved tensors are on ({hooks}), which a plan would not call: plan without")
