"""How a file says which kind of plan it is, and of which version.

There are two kinds: plans for runtimes, which `solve --output` writes and which tell all that is needed to run them;
and plans of PyTorch training steps, which `run torch --save` writes and which are of use only with the network.
"""

from __future__ import annotations

from typing import Any

from moccasin_mzn.errors import InputError, shown

FORMAT, VERSION = "moccasin_mzn plan", 1
TORCH_FORMAT = "moccasin_mzn PyTorch plan"
FORMER_TORCH_FORMAT = "moccasin_mzn plan 1"
"""What files of such plans said before they had a version, which is 1."""


def is_versioned(document: Any) -> bool:
    """Does a JSON document say that it is a plan for runtimes? Older ones, which say nothing, still read as plans."""
    return _format(document) == FORMAT


def is_torch_plan(document: Any) -> bool:
    """Does a JSON document say that it is a plan of a PyTorch training step?"""
    return _format(document) in (TORCH_FORMAT, FORMER_TORCH_FORMAT)


def check_version(document: Any) -> None:
    """Refuse a plan for runtimes of a version that is not known, and plans of PyTorch; what is neither is passed over.

    Raises:
        InputError: it is one.
    """
    if is_torch_plan(document):
        raise InputError(
            "a plan of a PyTorch training step, for `run torch --plan` and `Plan.load`; expected what `solve --output` "
            "writes"
        )
    if is_versioned(document):
        _check_number("plan", document.get("version"))


def check_torch_version(document: Any) -> None:
    """Refuse what is no plan of a PyTorch training step, or of a version that is not known.

    Raises:
        InputError: it is so.
    """
    if is_versioned(document):
        raise InputError(
            "a plan for runtimes, as `solve --output` writes it; expected one of a PyTorch training step, as "
            "`run torch --save` and `Plan.save` write it"
        )
    if not is_torch_plan(document):
        raise InputError(f'no plan of a PyTorch training step: expected an object whose "format" is "{TORCH_FORMAT}"')
    if document["format"] == TORCH_FORMAT:
        _check_number("PyTorch plan", document.get("version"))


def _format(document: Any) -> Any:
    return document.get("format") if isinstance(document, dict) else None


def _check_number(what: str, version: Any) -> None:
    if type(version) is not int or version != VERSION:
        raise InputError(f"{what} of version {shown(version)}, this program reads {VERSION}")
