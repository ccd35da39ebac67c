"""The report about a store of runs: tables, plots and statistics, as one HTML page, Markdown and LaTeX.

`runs` cleans the frames; `summary`, `curves`, `proofs`, `portfolio`, `growth` and `agreement` compute, each without
drawing; `sections` puts their results into a `document`, which `writing` writes in each format.
"""
