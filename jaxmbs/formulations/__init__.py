"""Formulations: coordinates and equations of motion of a mechanism, and their solvers."""
