"""The constraints, by family; importing a module of this package registers them."""

from . import boolean, element, integer, linear, scheduling  # noqa: F401
