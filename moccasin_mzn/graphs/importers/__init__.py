"""Networks of other frameworks to computation graphs.

Each importer traces its framework's network to a `program.Program`, a list of operations; `program.program_graph` makes
a graph of tensors in memory of it. The frameworks are optional extras, imported only when they are asked for.
"""
