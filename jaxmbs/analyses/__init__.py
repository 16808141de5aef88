"""Floor 3: what is computed from a mechanism: assembly, kinematics, diagnosis, singular configurations."""
