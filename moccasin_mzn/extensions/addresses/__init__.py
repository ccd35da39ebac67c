"""Offsets in one flat arena: what a runtime needs beside the schedule.

Data flow: `buffers` (the data), `check` (the judge, which shares no code with allocators), `search` and `exact` (the
allocators), `attach` and `joint` (arenas for schedules).
"""

from moccasin_mzn.heuristics.compiled_searches import CompiledSearch

ADDRESSES = CompiledSearch("search for addresses", "moccasin_mzn.extensions.addresses.search")
