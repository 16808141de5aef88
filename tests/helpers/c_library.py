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

    def __init__(self, code, folder, options):
        _, source = code.save(folder)
        library = folder / f"{code.name}.so"
        command = ["gcc", *STRICT, *options, "-fPIC", "-shared", source, "-o", library, "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.function = ctypes.CDLL(str(library))[code.name]
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
    """Return the results for samples in front of all arguments, in the shapes of `jax.vmap(program)`."""
    found = [compiled(*(x[k] for x in args)) for k in range(len(args[0]))]
    shapes, tree = jax.tree.flatten(jax.eval_shape(program, *(x[0] for x in args)))
    columns = zip(*found, strict=True)
    rows = [np.array(column).reshape(len(found), *shape.shape) for column, shape in zip(columns, shapes, strict=True)]
    return jax.tree.unflatten(tree, rows)
