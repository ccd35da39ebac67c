"""The constraints, by family; importing a module of this package registers them."""

from moccasin_mzn.solvers.cpsat.constraints import (
    arithmetic,  # noqa: F401
    boolean,  # noqa: F401
    boxes,  # noqa: F401
    cardinality,  # noqa: F401
    comparison,  # noqa: F401
    counting,  # noqa: F401
    element,  # noqa: F401
    extension,  # noqa: F401
    extremes,  # noqa: F401
    ordering,  # noqa: F401
    packing,  # noqa: F401
    reading,  # noqa: F401
    scheduling,  # noqa: F401
    successors,  # noqa: F401
)
