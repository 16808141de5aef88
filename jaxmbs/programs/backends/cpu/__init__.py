"""Vector machine code for CPUs, one lane per sample.

`vectors` emits a program for a group of lanes, with `vector_code` for one function; `patience` sets slow lanes aside,
`machine` compiles, `handler` is what XLA calls, `backend` what programs call.
"""
