"""Random numbers drawn once: what is computed again draws what it drew before, and the stream goes on as it would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moccasin_mzn.graphs.importers.torch_nodes import schema_of

if TYPE_CHECKING:
    import torch
    from torch import fx


def draws(node: fx.Node) -> bool:
    """True if an operator takes random numbers."""
    import torch

    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded not in tags:
        return False
    schema = schema_of(node)
    at = [argument.name for argument in schema.arguments].index("dropout_p") if "dropout_p" in str(schema) else -1
    if at < 0:
        return True
    share: Any = node.args[at] if at < len(node.args) else node.kwargs.get("dropout_p", 0.0)
    return bool(share)


def takes_generator(node: fx.Node) -> bool:
    """True if an operator can be told where its random numbers come from."""
    return any(argument.name == "generator" for argument in schema_of(node).arguments)


def state_now() -> torch.Generator:
    """A copy of the generator that operators draw from by default."""
    import torch

    return torch.default_generator.clone_state()


def state_tensor() -> torch.Tensor:
    """The state of that generator, as a tensor: it takes memory, but may be handed on wherever tensors may."""
    import torch

    return torch.default_generator.get_state()


def state_bytes() -> int:
    """What a state takes as a tensor."""
    import torch

    return torch.default_generator.get_state().numel()


def like_state(fake: torch.Tensor) -> torch.Tensor:
    """What a state is like as a tensor, made as another fake tensor was."""
    import torch

    return fake.new_empty([state_bytes()], dtype=torch.uint8, device="cpu")


def copy_of(state: torch.Generator | torch.Tensor) -> torch.Generator:
    """A generator that gives the numbers that followed a state; the state is not changed."""
    import torch

    return torch.Generator().set_state(state) if isinstance(state, torch.Tensor) else state.clone_state()


def replay_workspace(workspace: int) -> int:
    """Bytes that `replayed` takes beside what it returns, if the operator takes so many."""
    return max(workspace, state_bytes())


def replayed(state: torch.Generator | torch.Tensor, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Call an operator that has no argument for a generator as if the default generator were in a state.

    It takes the memory of a state, as a tensor, at its beginning and at its end.
    """
    import torch

    generator = torch.default_generator
    before = generator.clone_state()
    generator.set_state(state if isinstance(state, torch.Tensor) else state.get_state())
    try:
        return operator(*args, **kwargs)
    finally:
        generator.set_state(before.get_state())
