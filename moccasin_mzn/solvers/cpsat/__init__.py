"""FlatZinc on CP-SAT."""
