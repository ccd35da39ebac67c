"""Orders of arrays and of values: lexicographic, value precedence."""
