"""Known reasons why a step with a plan and one without are not equal, and what other loops may differ by.

The table of the section "Is it the same?" of the page on training has a row for each; `verify` finds those that apply.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.torch.nodes import schema_of
from moccasin_mzn.pytorch.checkpoints import CHECKPOINT
from moccasin_mzn.pytorch.joint import BUFFER, TANGENT, Joint

if TYPE_CHECKING:
    from torch import fx

_NAMED = 3
"""The most names in a sentence."""
OTHER_REASONS = (
    "not found by itself; operators that are traced differently than they run, and gradients laid out otherwise, "
    "differ by rounding"
)


def names_text(names: Collection[str]) -> str:
    """Return some names, and how many more there are."""
    some = ", ".join([*names][:_NAMED])
    return some + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def has_checkpoints(joints: Iterable[Joint]) -> bool:
    """Return whether something was traced in a checkpoint of the network's own."""
    return any(CHECKPOINT in node.meta for joint in joints for node in joint.nodes)


def checkpoint_reason(names: Collection[str], rest: bool) -> str:
    """The reason for what is equal to the step without the network's own checkpoints.

    Args:
        names: what that is.
        rest: something else is not equal, for another reason.
    """
    what = names_text(names) if rest else "all that differs"
    return (
        f"{what} is as without the network's own checkpoints, bit for bit: recomputing in the backward pass, these "
        "update the statistics of batch norms once more, or draw other random numbers, which a plan does not"
    )


def chance_reason(names: Collection[str]) -> str:
    """The reason for what differs between two steps without a plan."""
    return (
        f"{names_text(names)}: two steps without the plan differ as well, by kernels that add up in another order at "
        "each run, or by what the network itself does: torch.use_deterministic_algorithms(True)"
    )


def notes_on(joints: Iterable[Joint], autocast: bool) -> tuple[str, ...]:
    """What loops of other kinds differ by, though one step is equal.

    Args:
        autocast: the step runs under autocast, which keeps the weights that it has cast.
    """
    found = []
    split = [name for joint in joints for name in _with_summands(joint)]
    if split:
        found.append(
            f"the plan adds up the gradient of {names_text(split)}: where the loop reads that once more before one "
            "backward pass, in a second call or a penalty, the sum is in another order than without the plan, which "
            "differs by rounding"
        )
    if autocast:
        found.append(
            "autocast casts a weight once in a region and adds its gradients up in that type, a plan casts it in each "
            "call: several calls in one region before one backward pass differ by rounding, unless "
            "torch.autocast(..., cache_enabled=False)"
        )
    return tuple(found)


def _with_summands(joint: Joint) -> list[str]:
    """Names of parameters and inputs whose gradient the plan adds up from several summands."""
    given = [each for each in joint.wanted[: len(joint.wanted) - len(joint.apart)] if each not in joint.apart]
    gradients = dict(zip(joint.wanted, joint.gradients, strict=True))
    return [
        joint.given[node].name for node in given
        if joint.given[node].kind not in (BUFFER, TANGENT) and _is_sum(gradients[node]) and _is_read_often(node, joint)
    ]  # fmt: skip


def _is_sum(node: fx.Node | None) -> bool:
    return node is not None and getattr(schema_of(node), "name", "") in ("aten::add", "aten::add_")


def _is_read_often(node: fx.Node, joint: Joint) -> bool:
    return sum(user.op == "call_function" and user not in joint.backward for user in node.users) > 1
