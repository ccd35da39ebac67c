"""The computation graph, and where graphs come from."""
