"""What a graph runs on: several memories, a formulation of plans for each kind of them, and offsets in memory."""
