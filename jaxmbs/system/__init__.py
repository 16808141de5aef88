"""The mechanism, and quantities assembled over all of its elements."""
