"""Outputs computed in parts: a graph whose nodes know what they compute becomes one of parts, see `cutting.tile`."""
