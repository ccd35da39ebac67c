"""The constraints, by family; importing a module of this package registers them."""

from . import (  # noqa: F401
    arithmetic,
    boolean,
    boxes,
    cardinality,
    comparison,
    counting,
    element,
    extension,
    extremes,
    linear,
    ordering,
    packing,
    scheduling,
    successors,
)
