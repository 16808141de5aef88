"""What robot formats share: a tree of links (`tree`), their joints and springs (`joints`), the parts of a mechanism that
come of them (`parts`), and what couples two joints (`couplings`)."""
