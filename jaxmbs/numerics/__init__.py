"""Mathematics without mechanics: rotations, curves, linear algebra, roots and their derivatives, status of results."""
