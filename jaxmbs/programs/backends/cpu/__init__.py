"""Vector machine code for CPUs, one lane per sample.

`vectors` writes a program for a group of lanes, with `vector_code` for one function; `patience` sets slow lanes aside;
`machine` compiles; `handler` is the function that XLA calls; `backend` is the backend.
"""
