"""Joint coordinates: a spanning tree of joints, recursions along it, and the velocity transformation v = R θ̇."""
