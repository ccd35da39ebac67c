"""The models by name, and the translation between their solutions and sequences of computations."""

from moccasin_mzn.formulations.catalogue import FORMULATIONS, find_formulation, formulations, in_any_order
from moccasin_mzn.formulations.formulation import Formulation
from moccasin_mzn.formulations.models import models_folder
from moccasin_mzn.formulations.retention import Intervals, decode, encode, staged_events

__all__ = [
    "FORMULATIONS", "Formulation", "Intervals", "decode", "encode", "find_formulation", "formulations", "in_any_order",
    "models_folder", "staged_events",
]  # fmt: skip
