"""Search for the smallest value of a function: methods, bounds, many starts, progress and resumption."""
