"""Gradients of a planned step: added to a parameter's `.grad` or returned at the end; the outputs they depend on.

    returned:     g1 ... g2 ... g3 ... -> autograd adds g1, g2, g3 to `.grad`      all are in memory together
    accumulated:  g1, added ... g2, added ... g3, added                            one at a time, besides `.grad`

Autograd does the same as eager goes along; inside a plan, which is one function of autograd, the plan has to. Hooks of
parameters would not run, so they are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from moccasin_mzn.pytorch.errors import PlanError

if TYPE_CHECKING:
    import torch
    from torch import fx

    from moccasin_mzn.pytorch.computations import Computation, Computations, Root

    class AccumulateGrad(torch.autograd.graph.Node):
        """The node of autograd that adds to the `.grad` of a leaf."""

        variable: torch.Tensor


RETURNED: Final = "returned"
ACCUMULATED: Final = "accumulated"
STEP: Final = "step"
ACTIVATIONS: Final = "activations"
"""What a fraction as the budget is of: the whole step, or what is above the gradients that stay to its end."""


def added_to_grad(parameter: torch.Tensor | None, gradient: torch.Tensor, taken: bool) -> None:
    """What autograd does with a gradient of a parameter.

    Args:
        parameter: None: the backward pass was not asked for its gradient.
        taken: the gradient's memory is of its own and laid out as the parameter: where there is no `.grad`, it is that.
    """
    if parameter is None:
        return
    if parameter.grad is not None:
        parameter.grad.add_(gradient)
    elif taken:
        parameter.grad = gradient
    else:
        parameter.grad = gradient.new_empty_strided(parameter.shape, parameter.stride()).copy_(gradient)


def check_parameters(parameters: Sequence[tuple[str, torch.Tensor]]) -> None:
    """Refuse what a plan would pass over.

    Raises:
        PlanError: a parameter has hooks, or is no leaf.
    """
    for name, parameter in parameters:
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise PlanError(f"parameter '{name}' has hooks, which would not run: plan with gradients {RETURNED}")
        if not parameter.is_leaf:
            raise PlanError(f"parameter '{name}' was computed, it has no grad: plan with gradients {RETURNED}")


def targets(nodes: Sequence[AccumulateGrad]) -> list[torch.Tensor | None]:
    """Within a backward pass: the parameters whose `.grad` it is to add to; None for those that it is not asked for.

    Args:
        nodes: of autograd, one for each parameter.

    Raises:
        PlanError: the gradients are not to go to `.grad` at all.
    """
    import torch

    try:
        return [node.variable if torch._C._will_engine_execute_node(node) else None for node in nodes]
    except RuntimeError:  # PyTorch raises this where it is `autograd.grad`
        raise PlanError(
            "autograd.grad asks for a gradient that the plan adds to a parameter's grad: "
            f"call backward, or plan with gradients {RETURNED}"
        ) from None


# --- Which outputs' gradients each gradient of a step is made of: without any of them autograd makes none -----


def gradient_dependencies(program: Computations) -> tuple[frozenset[int], ...]:
    """For each gradient of a step the positions of the tangents that it depends on."""
    from moccasin_mzn.pytorch.joint import TANGENT

    joint = program.joint
    position = {node: at for at, node in enumerate(joint.of_kind(TANGENT))}
    of: dict[Computation, frozenset[int]] = {}
    for made in program.all:
        read = [pair for member in made.members for pair in program.reads[member.node].items()]
        of[made] = _through([(root, version) for root, version in read if version is not made], of, position)
    results = [list(program.roots[node].values()) if node is not None else [] for node in joint.gradients]
    return tuple(_through([(root, program.final[root]) for root in roots], of, position) for roots in results)


def _through(
    read: Sequence[tuple[Root, Computation | None]], of: Mapping[Computation, frozenset[int]],
    position: Mapping[fx.Node, int],
) -> frozenset[int]:  # fmt: skip
    """What versions of memories depend on; None: what was given."""
    given = frozenset(position[root.node] for root, made in read if made is None and root.node in position)
    return given.union(*(of[made] for _, made in read if made is not None))
