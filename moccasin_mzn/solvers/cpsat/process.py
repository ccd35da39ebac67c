"""A run in a process of its own, which HiGHS may take over."""

from __future__ import annotations

from moccasin_mzn.solvers.cpsat import run as here
from moccasin_mzn.solvers.flatzinc.options import Options
from moccasin_mzn.solvers.flatzinc.stopping import StopFlag
from moccasin_mzn.solvers.flatzinc.syntax import FlatZinc


def run(options: Options, stop: StopFlag) -> int:
    """As `run.run`, but for files that have to be solved elsewhere."""
    return here.run(options, stop, _elsewhere)


def _elsewhere(file: FlatZinc, options: Options) -> None:
    from moccasin_mzn.solvers.cpsat.elsewhere import hand_over  # of which most files have no need

    hand_over(file, options)
