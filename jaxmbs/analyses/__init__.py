"""Analyses of a mechanism: assembly, kinematics, diagnosis, singular configurations, design sensitivities."""
