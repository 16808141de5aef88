"""Motion under forces: simulation, integration methods, how constraints are kept closed, reactions."""
