"""A linear program in HiGHS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from moccasin_mzn.solvers.flatzinc.syntax import FlatZincError
from moccasin_mzn.solvers.linear.program import LinearProgram

if TYPE_CHECKING:
    import highspy

_ROWWISE = 2


def load(program: LinearProgram, *, integer: bool) -> highspy.Highs:
    """The program as HiGHS holds it, silent; without integrality unless `integer`.

    Raises `FlatZincError` if HiGHS refuses it, as it does with coefficients from 1e15 on.
    """
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    kinds = program.is_integer if integer else np.zeros(program.columns, dtype=bool)
    sense = highspy.ObjSense.kMaximize if program.maximize else highspy.ObjSense.kMinimize
    status = highs.passModel(
        program.columns, program.rows, len(program.row_column), _ROWWISE, int(sense), program.objective_offset,
        program.objective, program.lower, program.upper, program.row_lower, program.row_upper,
        program.row_start[:-1].astype(np.int32), program.row_column.astype(np.int32), program.row_coefficient,
        kinds.astype(np.int32),
    )  # fmt: skip
    if status == highspy.HighsStatus.kError:
        raise FlatZincError("HiGHS refuses the program: its numbers are too large")
    return highs
