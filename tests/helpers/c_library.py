"""C sources compiled by gcc, called with arguments like those of the program."""

import ctypes
import re
import shutil
import subprocess

import jax
import numpy as np
import pytest

# Options with which code for controllers is compiled; warnings are errors.
STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Werror"]
# The compiler ends the process if the code does something that C leaves undefined.
CHECKED = ["-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
# The compiler does not fuse products and sums; functions of the program that do so are single instructions.
SAME_BITS = ["-O1", "-ffp-contract=off", "-march=native"]
# Types of ctypes by the names of C.
C_TYPES = {"double": ctypes.c_double, "float": ctypes.c_float, "int64_t": ctypes.c_int64, "bool": ctypes.c_bool}

# A function that calls another one for many inputs.
BATCH = """#include "NAME.h"
void NAME_batch(int64_t n, const NAME_in *in, NAME_out *out, NAME_memory *memory);
void NAME_batch(int64_t n, const NAME_in *in, NAME_out *out, NAME_memory *memory) {
    for (int64_t k = 0; k < n; k++) NAME(&in[k], &out[k], memory);
}
"""

# Mark of tests that need gcc.
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def struct_of(header, name):
    """Return the struct of a header as a class of ctypes."""
    body = re.search(rf"typedef struct {{([^}}]*)}} {name};", header).group(1)
    fields = []
    for kind, member, size in re.findall(r"^    (double|float|int64_t|bool) (\w+)(?:\[(\d+)\])?;", body, re.MULTILINE):
        fields.append((member, C_TYPES[kind] * int(size) if size else C_TYPES[kind]))
    return type(name, (ctypes.Structure,), {"_fields_": fields or [("unused", ctypes.c_char)]})


class Compiled:
    """A program as a library of gcc: called with arguments like those of the program, it returns a list of arrays."""

    def __init__(self, code, folder, options, compiler="gcc"):
        _, source = code.save(folder)
        library, batch = folder / f"{code.name}.so", folder / f"{code.name}_batch.c"
        batch.write_text(BATCH.replace("NAME", code.name))
        command = [compiler, *STRICT, *options, "-fPIC", "-shared", source, batch, "-o", library, "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.function, self.batch = (ctypes.CDLL(str(library))[f"{code.name}{end}"] for end in ("", "_batch"))
        self.structs = [struct_of(code.header, f"{code.name}_{part}") for part in ("in", "out", "memory")]

    def __call__(self, *args):
        given, found, memory = (struct() for struct in self.structs)
        for (name, kind), value in zip(given._fields_, jax.tree.leaves(args), strict=True):
            value = np.asarray(value)
            setattr(given, name, value.item() if not value.ndim else kind(*value.ravel().tolist()))
        self.function(ctypes.byref(given), ctypes.byref(found), ctypes.byref(memory))
        values = (getattr(found, name) for name, _ in found._fields_)
        return [np.array(list(x)) if isinstance(x, ctypes.Array) else np.array(x) for x in values]


def over_samples(compiled, program, *args):
    """Return the results for samples in front of all leaves of the arguments, in the shapes of `jax.vmap(program)`."""
    leaves = jax.tree.leaves(args)
    given, found = (np.zeros(len(leaves[0]), struct) for struct in compiled.structs[:2])
    for name, value in zip(given.dtype.names, leaves, strict=True):
        given[name] = np.reshape(value, given[name].shape)
    address = lambda array: array.ctypes.data_as(ctypes.c_void_p)
    compiled.batch(ctypes.c_int64(len(given)), address(given), address(found), ctypes.byref(compiled.structs[2]()))
    shapes, tree = jax.tree.flatten(jax.eval_shape(program, *jax.tree.map(lambda x: x[0], args)))
    columns = zip(found.dtype.names, shapes, strict=True)
    return jax.tree.unflatten(tree, [found[name].reshape(len(found), *shape.shape) for name, shape in columns])
