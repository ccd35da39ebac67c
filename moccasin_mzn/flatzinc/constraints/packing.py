"""Items into bins and boxes into the plane."""
