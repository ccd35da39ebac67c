"""The models by name, and the translation between their solutions and sequences of computations."""

from __future__ import annotations

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.formulations.checkmate import CHECKMATE, Checkmate
from moccasin_mzn.formulations.formulation import Formulation, models_folder
from moccasin_mzn.formulations.moccasin import INDICES, MOCCASIN, PRECEDENCES, Moccasin
from moccasin_mzn.formulations.retention import Intervals, decode, encode, staged_events

__all__ = [
    "CHECKMATE", "FORMULATIONS", "INDICES", "MOCCASIN", "PRECEDENCES", "Checkmate", "Formulation", "Intervals",
    "Moccasin", "decode", "encode", "find_formulation", "models_folder", "staged_events",
]  # fmt: skip

FORMULATIONS = MOCCASIN + CHECKMATE


def find_formulation(name: str, precedence: str | None = None, index: str | None = None) -> Formulation:
    """The formulation of this name; None: its own default.

    Raises:
        InputError: an unknown name, where the message lists the known ones; a precedence or index that the formulation
            does not have.
    """
    if name in CHECKMATE:
        for what, value in (("precedence", precedence), ("index", index)):
            if value is not None:
                raise InputError(f"{name} has no {what} {shown(value)}: that is for {' and '.join(MOCCASIN)}")
        return Checkmate(name)
    if name in MOCCASIN:
        return Moccasin(name, precedence or PRECEDENCES[0], index or INDICES[0])
    raise InputError(f"unknown formulation {shown(name)}, expected one of {', '.join(FORMULATIONS)}")
