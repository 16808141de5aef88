"""Limits and thresholds of the engine, each with the measurement or the reason behind it.

Operations are scalar operations; the body of a loop counts once unless the comment says otherwise. A sample is one
evaluation of a program in a batch.
"""

from __future__ import annotations

import math

# Tracing.

# Programs with more operations run as array code. Compiling this many takes a minute and 10 GB.
MAX_PROGRAM_OPERATIONS = 1_000_000
# Larger arrays in memory are not taken apart into scalars.
MAX_ARRAY_ENTRIES = 100_000
# Arrays with more entries are first searched for equal entries, because most of a large matrix are zeros.
MAX_ENTRIES_ONE_BY_ONE = 16
# From this many equations on the results of a called function are kept, because elements of one mechanism share them.
MIN_EQUATIONS_TO_KEEP_RESULTS = 16
# Loops that make at most this many scalars in all iterations are unrolled.
MAX_UNROLLED_SCALARS = 256
# Longer tables are looked up in memory, shorter ones by comparing the index.
MAX_COMPARED_ENTRIES = 8
# Number of values in the state of a short loop, such as that over the stages of a time step, up to which it is written out
# on CPUs: a tenth to a third faster, but longer to compile. A thread of a GPU has too few registers for its reverse mode.
MAX_VALUES_UNROLLED = 12
# Iteration limit of a loop with a condition divided by the iterations it usually takes, for searches and Newton's method.
LIMIT_PER_ITERATION = 10

# Memory for graphs.

# The graph of a program with more nodes is deleted once its code is made.
MAX_NODES_AFTER_COMPILING = 20_000
# Nodes of all graphs kept for derivatives, some 50 MB; the oldest graphs are deleted first.
MAX_KEPT_NODES = 200_000
# Number of youngest graphs that are kept whatever their size: the programs of a gradient are made from the same graphs.
MIN_KEPT_GRAPHS = 24

# Reverse mode.

# Bytes of states of a loop up to which all of them are kept from the forward run; of larger ones only the first state of
# each segment is. Writing and reading 288 kB, 1,000 steps of nine coordinates, takes longer than computing most of them
# again.
KEPT_STATE_BYTES = 8 * 1024
# The same on GPUs, whose threads have no cache for a segment: 1,000 steps of a four-bar's Cartesian coordinates are 300 kB,
# and the samples that run there at once need some 10 GB.
KEPT_STATE_BYTES_GPU = 512 * 1024
# The same for loops inside loops, whose states stay in the processor's caches.
KEPT_STATE_BYTES_INNER_LOOP = 256 * 1024
# Loops of at most this many iterations, without loops inside, keep nothing in the forward run.
MAX_ITERATIONS_KEEPING_NOTHING = 8
# Values that take long to compute are kept beside the states in loops and segments of at most this many iterations.
MAX_ITERATIONS_KEEPING_COSTLY = 64
# More rows with cotangents of their own are told apart by a table, fewer by comparing.
MAX_COMPARED_COTANGENT_ROWS = 4

# Optimisation by LLVM on CPUs. Without it code is made four times as fast, runs up to 2.5 times as long, and has the same
# bits.

# A program that evaluates its operations fewer times than this per call is compiled without optimisation: optimising would
# pay off only after about a hundred calls.
MIN_EVALUATIONS_TO_OPTIMISE = 1_000
# Largest batch for which a program is compiled without optimisation, by how often each sample runs it.
UNOPTIMISED_SAMPLES = {"once": math.inf, "seldom": MIN_EVALUATIONS_TO_OPTIMISE, "often": 0}
# LLVM's level of optimisation for all other programs; higher levels take twice as long and give no faster code.
OPTIMISATION_LEVEL = 1
# Programs without loops and with more operations than this are compiled without optimisation.
MAX_OPTIMISED_OPERATIONS = 20_000
# In regions with more operations the time of optimising depends on the size of the region.
LARGE_REGION_OPERATIONS = 5_000
# LLVM's time for one function grows faster than its length: longer regions become several functions.
MAX_FUNCTION_NODES = 6_000
# The same for the values of a basic block, in which LLVM chooses instructions.
MAX_BLOCK_VALUES = 256

# Vectors and threads of CPUs.

# Regions with more operations keep one vector of each value in flight, smaller ones two: the values of large regions do not
# fit into registers anyway, and compiling takes half the time.
MAX_OPERATIONS_TWO_VECTORS = 1_800
# The same for programs with loops whose regions exchange few values.
MAX_OPERATIONS_TWO_VECTORS_IN_LOOPS = 4_000
# Number of values that cross regions up to which the limit for loops holds: two vectors of each fit into a first-level
# cache.
MAX_CROSSING_VALUES = 192
# Batches with fewer operations, all samples and iterations counted, run in the calling thread. Waking another one takes
# some microseconds.
MIN_OPERATIONS_FOR_THREADS = 100_000
# Parts of a batch per thread: more even out the load, fewer cost less.
PARTS_PER_THREAD = 4

# GPUs.

# Threads of a block. 128 have 255 registers each on every GPU. The code does not say so (`.maxntid`), because then NVIDIA's
# assembler gives large kernels 32 registers and spills ten times as much.
THREADS_PER_BLOCK = 128
# Batches of at most this many samples have blocks of one warp, so that they spread over the whole GPU.
MAX_SAMPLES_ONE_WARP = 2**15
# Threads of a warp.
WARP_THREADS = 32
# Bytes of a workspace; if samples need more, fewer threads take several samples each.
MAX_WORKSPACE_BYTES = 2**30
# Number of threads that run at once even if their workspace is larger.
MIN_THREADS = 4096
# Bytes of one thread outside its registers. A GPU reserves them for all threads it can hold: 40 kB for each of an H100's
# 270,000 are 11 GB.
MAX_FRAME_BYTES = 40_000
# Number of buffers of a kernel, whose addresses have to fit into 4 kB.
MAX_BUFFERS = 500
# Functions of more lines are called; shorter ones are inlined, so that values which cross them stay in registers.
MAX_INLINED_LINES = 12_000
# Kernels with more operations are not optimised, which would take longer than it saves.
MAX_OPTIMISED_OPERATIONS_GPU = 40_000
# Fraction of a GPU's memory that threads may take outside their registers; JAX takes three quarters for arrays.
LOCAL_MEMORY_FRACTION = 0.15
