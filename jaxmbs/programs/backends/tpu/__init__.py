"""TPUs: one Pallas kernel for each program, with a tile of 1,024 samples for each scalar.

`backend` places batches, `kernel` writes the kernel. Pallas is imported when the first kernel is made.
"""
