"""Which MIP solver works here: the library that this process has loaded, in its own words."""

from __future__ import annotations


def loaded_version(engine: str) -> str:
    """Name and version, such as "HiGHS 1.15.1"; `engine` is a value of `--engine`."""
    if engine == "highs":
        import highspy

        return f"HiGHS {highspy.Highs().version()}"
    import ortools

    return f"SCIP of OR-Tools {ortools.__version__}"
