"""Floor 2: the mechanism and what is assembled over all of its elements."""
