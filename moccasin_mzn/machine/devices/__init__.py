"""Two or more devices, each with its own memory: where each node is computed, what is copied, and what again."""
