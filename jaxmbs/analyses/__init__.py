"""What is computed from a mechanism: assembly, kinematics, diagnosis, singular configurations, design sensitivities."""
