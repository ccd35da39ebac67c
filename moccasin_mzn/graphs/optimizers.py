"""What optimizers keep for every trained parameter, beside the parameter: fixed memory of a training graph."""

from __future__ import annotations

from collections.abc import Mapping

NONE = "none"
"""No optimizer."""
OPTIMIZERS: Mapping[str, int] = {NONE: 0, "sgd": 0, "momentum": 1, "adam": 2}
"""Numbers kept for each trained parameter, by the optimizer's name on a command line."""
