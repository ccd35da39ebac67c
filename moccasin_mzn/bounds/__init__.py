"""Lower bounds from relaxations: on the duration of staged schedules, and on the budget of any schedule."""
