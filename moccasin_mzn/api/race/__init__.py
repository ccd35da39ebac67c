"""Several solvers on one instance, each in a process of its own: the first proof, or the best at the end, wins."""
