"""Pictures of schedules: retention intervals above, the memory profile below, on one axis of events or of stages.

`picture` has what there is to see, `static` (matplotlib) and `interactive` (plotly) draw it, `files` writes it. The
drawing libraries are the extra `plot` and are imported only when something is drawn.
"""
