"""Natural coordinates: basic points and unit vectors that bodies share at their joints."""
