"""A soak: random graphs, random requests about them, and every claim in the answers compared with witnesses."""
