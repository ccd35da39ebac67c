"""What recomputations must cost in any order and any number, by minimum cuts."""
