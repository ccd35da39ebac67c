"""Schedules of tiled graphs by construction: layers stream through memory, whole ones at cuts, parts between them."""
