"""Offsets in one flat arena: `search` and `exact` find them for buffers, `joint` and the arrangers for answers."""

from moccasin_mzn.heuristics.compiled_searches import CompiledSearch

ADDRESSES = CompiledSearch("search for addresses", "moccasin_mzn.machine.addresses.search")
