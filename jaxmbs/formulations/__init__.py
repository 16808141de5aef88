"""Formulations: which coordinates and equations describe the motion of a mechanism, and how they are solved."""
