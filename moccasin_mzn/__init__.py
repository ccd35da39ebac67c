"""Rematerialization schedules for computation graphs: least extra compute within a memory budget."""
