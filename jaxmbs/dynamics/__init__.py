"""F3: motion under forces. Formulations make equations of a mechanism, integrators advance them in time."""
