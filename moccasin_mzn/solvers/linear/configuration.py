"""The solver configurations (`.msc` files) by which MiniZinc finds HiGHS and SCIP."""

from __future__ import annotations

from importlib.metadata import version

from moccasin_mzn.solvers.flatzinc.configuration import COMMON, solver_command

ENGINES = {
    "highs": ("HiGHS", "highspy", "HiGHS options as NAME=VALUE, separated by blanks"),
    "scip": ("SCIP", "ortools", "SCIP parameters as text protocol buffer (GScipParameters)"),
}
"""Name for people, the distribution that brings it, and the form of its parameters, by the value of `--engine`."""


def solver_configuration(engine: str) -> dict:
    """The content of the `.msc` file of an engine, in keys that MiniZinc 2.6 to 2.10 accept."""
    name, distribution, parameters = ENGINES[engine]
    return {
        "id": f"org.moccasin-mzn.{engine}",
        "name": f"{name} (moccasin_mzn)",
        "description": f"{name} of {distribution} behind the FlatZinc reader of moccasin_mzn",
        "version": version(distribution),
        "executable": solver_command("moccasin_mzn.solvers.linear", "--engine", engine),
        "mznlib": "-Glinear",
        "tags": ["mip", "int", "float", engine],
        "extraFlags": [["--params", parameters, "string", ""]],
        **COMMON,
    }
