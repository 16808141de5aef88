"""Limits and thresholds of the engine, each with the measurement or the reason behind it.

Operations are scalar operations; the body of a loop counts once unless the comment says otherwise. A sample is one
evaluation of a program in a batch.
"""

from __future__ import annotations

import math

# Tracing.

# Largest number of scalar operations of a straight-line program; functions with more run as array code. Compiling this
# many takes a minute and 10 GB.
MAX_PROGRAM_OPERATIONS = 1_000_000
# Largest number of entries of an array in memory that is loaded entry by entry; operations that need more make the
# function run as array code.
MAX_ARRAY_ENTRIES = 100_000
# Largest number of entries of an array on which an operation is traced entry by entry; in larger ones equal entries are
# found first, because most of a large matrix are zeros.
MAX_ENTRIES_ONE_BY_ONE = 16
# Smallest number of equations of a called function whose results are kept during tracing, because elements of one
# mechanism call it with the same arguments.
MIN_EQUATIONS_TO_KEEP_RESULTS = 16
# Largest number of scalars, made in all iterations together, of a loop that is unrolled.
MAX_UNROLLED_SCALARS = 256
# Largest number of entries of a table that is looked up by comparing the index with each; longer ones are put into
# memory.
MAX_COMPARED_ENTRIES = 8
# Number of values in the state of a short loop, such as that over the stages of a time step, up to which it is written out
# on CPUs: a tenth to a third faster, but longer to compile. A thread of a GPU has too few registers for its reverse mode.
MAX_VALUES_UNROLLED = 12
# Assumed quotient of the iteration limit of a loop with a condition and the iterations it takes, in estimates of the
# work of a program; typical of searches and Newton's method.
LIMIT_PER_ITERATION = 10

# Memory for graphs.

# Largest number of nodes of a graph that is kept once its program's code is made; larger ones are deleted.
MAX_NODES_AFTER_COMPILING = 20_000
# Largest number of nodes of all graphs that are kept for derivatives, some 50 MB; beyond it the oldest graphs are
# deleted.
MAX_KEPT_NODES = 200_000
# Number of youngest graphs that are kept whatever `MAX_KEPT_NODES` says: the programs of a gradient are made from the
# same graphs.
MIN_KEPT_GRAPHS = 24

# Reverse mode.

# Bytes of states of one sample up to which a loop keeps all of them from the forward run, in equal shares if a program
# has several such loops; of larger ones only the first state of each segment is kept. Writing and reading 288 kB, 1,000
# steps of nine coordinates, takes longer than computing most of them again.
KEPT_STATE_BYTES = 8 * 1024
# Limit as `KEPT_STATE_BYTES`, of one sample, on GPUs, whose threads have no cache for a segment: 1,000 steps of a
# four-bar's Cartesian coordinates are 300 kB, and the samples that run there at once need some 10 GB.
KEPT_STATE_BYTES_GPU = 512 * 1024
# Limit as `KEPT_STATE_BYTES` for loops inside loops, whose states stay in the processor's caches.
KEPT_STATE_BYTES_INNER_LOOP = 256 * 1024
# Largest number of iterations of a loop, without loops inside, that keeps no states in the forward run for reverse
# mode.
MAX_ITERATIONS_KEEPING_NOTHING = 8
# Largest number of iterations of loops and segments that keep, beside their states, the values that take long to
# compute.
MAX_ITERATIONS_KEEPING_COSTLY = 64
# Largest number of a loop's rows with cotangents of their own that are told apart by comparing the row number; for more
# a table is used.
MAX_COMPARED_COTANGENT_ROWS = 4

# Optimisation by LLVM on CPUs. Without it code is made four times as fast, runs up to 2.5 times as long, and has the same
# bits.

# A program that evaluates its operations fewer times than this per call is compiled without optimisation: optimising would
# pay off only after about a hundred calls.
MIN_EVALUATIONS_TO_OPTIMISE = 1_000
# Largest batch for which a program is compiled without optimisation, by how often each sample runs it.
UNOPTIMISED_SAMPLES = {"once": math.inf, "seldom": MIN_EVALUATIONS_TO_OPTIMISE, "often": 0}
# LLVM's level of optimisation, on CPUs, for programs that are compiled with optimisation; higher levels take twice as
# long and give no faster code.
OPTIMISATION_LEVEL = 1
# Largest number of operations of a program without loops that is compiled with optimisation on CPUs.
MAX_OPTIMISED_OPERATIONS = 20_000
# A program whose largest region has this many operations needs twice `MIN_EVALUATIONS_TO_OPTIMISE` evaluations, one
# with more in proportion: the time of optimising an operation grows with the size of its region.
LARGE_REGION_OPERATIONS = 3_500
# Largest number of nodes in one function of a kernel; longer regions become several functions, because LLVM's time for
# one function grows faster than its length.
MAX_FUNCTION_NODES = 6_000
# Largest number of values in a basic block of a kernel, in which LLVM chooses instructions; its time grows faster than
# this number.
MAX_BLOCK_VALUES = 256

# Vectors and threads of CPUs.

# Regions with more operations keep one vector of each value in flight, smaller ones two: the values of large regions do not
# fit into registers anyway, and compiling takes half the time.
MAX_OPERATIONS_TWO_VECTORS = 1_800
# Largest number of operations of a region, in programs with loops whose regions exchange few values, with two vectors
# of each value in flight.
MAX_OPERATIONS_TWO_VECTORS_IN_LOOPS = 4_000
# Largest number of values that cross regions in a program with loops for which `MAX_OPERATIONS_TWO_VECTORS_IN_LOOPS`
# holds: two vectors of each fit into a first-level cache.
MAX_CROSSING_VALUES = 192
# Smallest number of operations of a batch, all samples and iterations counted, that is divided among threads; waking
# one takes some microseconds.
MIN_OPERATIONS_FOR_THREADS = 100_000
# Number of parts of a batch per CPU thread: more even out the load, fewer cost less.
PARTS_PER_THREAD = 4

# GPUs.

# Threads of a block. 128 have 255 registers each on every GPU. The code does not say so (`.maxntid`), because then NVIDIA's
# assembler gives large kernels 32 registers and spills ten times as much.
THREADS_PER_BLOCK = 128
# Batches of at most this many samples have blocks of one warp, so that they spread over the whole GPU.
MAX_SAMPLES_ONE_WARP = 2**15
# Number of threads of a warp, which a GPU executes together.
WARP_THREADS = 32
# Largest size of a kernel's workspace in bytes; if samples need more, fewer threads take several samples each.
MAX_WORKSPACE_BYTES = 2**30
# Smallest number of threads that must fit into `MAX_WORKSPACE_BYTES`; a program that needs more workspace for them has
# no kernel on GPUs.
MIN_THREADS = 4096
# Largest number of bytes of one GPU thread outside its registers; programs with more have no kernel. A GPU reserves
# them for all threads it can hold: 40 kB for each of an H100's 270,000 are 11 GB.
MAX_FRAME_BYTES = 40_000
# Largest number of inputs and outputs of a kernel on GPUs, whose addresses have to fit into 4 kB; programs with more
# have no kernel.
MAX_BUFFERS = 500
# Largest number of lines of a function of a GPU kernel that is inlined, so that values which cross it stay in
# registers; longer functions are called.
MAX_INLINED_LINES = 12_000
# Largest number of operations of a GPU kernel that is optimised; for larger ones that would take longer than it saves.
MAX_OPTIMISED_OPERATIONS_GPU = 40_000
# Fraction of a GPU's memory that threads may take outside their registers; JAX takes three quarters for arrays.
LOCAL_MEMORY_FRACTION = 0.15

# TPUs.

# Largest number of operations of a kernel on TPUs. libtpu compiles those of 61,000, for Bricard's mechanism, in a few
# seconds each, and the same operations as elementwise XLA in more than three minutes. Larger kernels have not been tried.
MAX_OPERATIONS_TPU = 80_000
# Largest size in bytes of the arrays of a kernel in the vector memory of a TPU's core. That holds 128 MB in v5e and v6e and
# 64 MB in v5p; the rest is for `SPILL_MEMORY_BYTES`.
MAX_VECTOR_MEMORY_BYTES = 44 * 2**20
# Bytes of the vector memory for values of a kernel that do not fit into registers, as much as Mosaic allows by itself.
SPILL_MEMORY_BYTES = 16 * 2**20
# Largest number of entries of the arrays, the same for all samples, that a kernel has in the scalar memory of a TPU's core,
# which holds some hundred thousand numbers; further ones are copied into the tiles of every sample.
MAX_SHARED_ENTRIES = 32_768
