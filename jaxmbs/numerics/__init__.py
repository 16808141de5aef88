"""Mathematics without mechanics: rotations, curves, linear algebra, roots and their derivatives, and the status of results."""
