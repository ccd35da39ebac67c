"""Output for people and programs: progress lines, tables, JSON, pictures, and the results of Python functions."""
