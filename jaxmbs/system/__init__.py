"""The mechanism and what is assembled over all of its elements."""
