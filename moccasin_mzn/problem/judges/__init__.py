"""Who judges schedules, plans and arenas; they import what they judge, and nothing else."""
