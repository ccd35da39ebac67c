"""The constraints, by family; importing a module of this package registers them, see `registry.handler`."""
