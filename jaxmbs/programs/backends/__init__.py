"""From a graph of scalars to code for a platform: `llvm` for CPUs, `xla` for all others."""
