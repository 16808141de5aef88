"""One kernel per program on NVIDIA's GPUs, with a thread for each sample.

`threads` writes a program for a thread; `ptx` compiles it; `driver` loads it; `handler` is the function that XLA calls;
`host` runs kernels on this processor; `backend` has the backends.
"""
