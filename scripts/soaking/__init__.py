"""A soak: random graphs, random questions about them, and every claim in the answers held against witnesses."""
