"""What people and programs are told: progress lines, JSON lines, tables, pictures."""
