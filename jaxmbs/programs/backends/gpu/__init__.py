"""One kernel per program on NVIDIA's GPUs, with a thread for each sample.

`threads` emits a program for a thread, `ptx` compiles it, `driver` loads it, `handler` is what XLA calls, `backend` what
programs call.
"""
