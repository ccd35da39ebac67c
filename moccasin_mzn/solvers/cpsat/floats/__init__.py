"""Floats in exact integers.

A float that follows from other variables is a sum of integers with fractions as factors (`forms`), or counts steps of
a fraction of 1; constraints on it are constraints on integers. A float that follows from nothing is continuous: steps
stand for all of its values only where it is compared with others (`differences`). All else is refused with its place.
"""
