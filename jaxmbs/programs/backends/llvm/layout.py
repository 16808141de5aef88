"""Sizes and offsets of the structs of XLA's C interface, computed from its header, and compared with those in use.

Handlers are written for one layout. XLA may change the layout without changing its version number, so the layout itself is
compared before the first handler is made.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

import jax

# C type ↦ its size in bytes, which is also its alignment; pointers and enumerations have constants of their own.
SCALAR_BYTES = {"size_t": 8, "int64_t": 8, "uint64_t": 8, "int": 4, "int32_t": 4, "uint32_t": 4}
# Size and alignment of a pointer in bytes.
POINTER_BYTES = 8
# Size and alignment of an enumeration in bytes.
ENUM_BYTES = 4

# Offsets in bytes of all fields that handlers read or write, those of `CALLED` included: struct ↦ field ↦ offset.
KNOWN_OFFSETS: dict[str, dict[str, int]] = {
    "XLA_FFI_Extension_Base": {"type": 8, "next": 16},
    "XLA_FFI_Metadata_Extension": {"metadata": 24},
    "XLA_FFI_Metadata": {"api_version": 8, "traits": 32},
    "XLA_FFI_Api_Version": {"major_version": 16, "minor_version": 20},
    "XLA_FFI_CallFrame": {
        "extension_start": 8,
        "api": 16,
        "ctx": 24,
        "stage": 32,
        "args": 40,
        "rets": 80,
        "attrs": 120,
    },
    "XLA_FFI_Args": {"args": 32},
    "XLA_FFI_Rets": {"rets": 32},
    "XLA_FFI_Attrs": {"attrs": 40},
    "XLA_FFI_Buffer": {"data": 24},
    "XLA_FFI_Array": {"data": 16},
}
# Functions of XLA's interface that handlers call ↦ the fields of the struct of their arguments, in its order. The struct
# begins with its own size; every field takes eight bytes.
CALLED: dict[str, tuple[str, ...]] = {
    "XLA_FFI_Error_Create": ("extension_start", "message", "errc"),
    "XLA_FFI_Error_Destroy": ("extension_start", "error"),
    "XLA_FFI_Stream_Get": ("extension_start", "ctx", "stream"),
    "XLA_FFI_ThreadPool_NumThreads": ("extension_start", "ctx", "num_threads"),
    "XLA_FFI_ThreadPool_Schedule": ("extension_start", "ctx", "task", "data"),
}
KNOWN_OFFSETS |= {f"{name}_Args": {field: 8 * k for k, field in enumerate(CALLED[name], 1)} for name in CALLED}
# Sizes in bytes, padding included, of the structs that handlers make themselves.
KNOWN_SIZES = {f"{name}_Args": 8 * (1 + len(fields)) for name, fields in CALLED.items()}
# Values of the enumerators of XLA's interface that handlers compare with or hand over.
KNOWN_VALUES = {
    "XLA_FFI_Extension_Metadata": 1,
    "XLA_FFI_ExecutionStage_EXECUTE": 3,
    "XLA_FFI_Error_Code_RESOURCE_EXHAUSTED": 8,
    "XLA_FFI_Error_Code_INTERNAL": 13,
}
# Structs that later versions of JAX call by another name: new name ↦ name here.
RENAMED = {"XLA_FFI_InternalExtension": "XLA_FFI_Extension_Base"}


class Struct(NamedTuple):
    """Offsets of the fields of a struct in bytes, by name; its size with padding, and its alignment."""

    offsets: dict[str, int]
    size: int
    alignment: int


@functools.cache
def header() -> str:
    """Return XLA's C interface for foreign functions as text, without comments."""
    text = (Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text()
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def structs(text: str) -> dict[str, Struct]:
    """Return all structs of a header, laid out as in C on 64-bit processors; `ValueError` for an unknown type."""
    sizes = dict(SCALAR_BYTES)
    sizes |= dict.fromkeys(re.findall(r"typedef enum \{[^}]*\} (\w+);", text), ENUM_BYTES)
    for old, new in re.findall(r"typedef (\w+) (\w+);", text):
        if old in sizes:
            sizes[new] = sizes[old]
    alignments, found = dict(sizes), {}
    for name, body in re.findall(r"struct (\w+) \{(.*?)\n\}", text, re.DOTALL):
        found[RENAMED.get(name, name)] = laid_out = _layout_of(name, body, sizes, alignments)
        sizes[name], alignments[name] = laid_out.size, laid_out.alignment
    return found


def _layout_of(name: str, body: str, sizes: dict[str, int], alignments: dict[str, int]) -> Struct:
    """Return the layout of the struct with this name and this text between its braces."""
    offsets, end, widest = {}, 0, 1
    # A macro declares the functions of the table `XLA_FFI_Api`.
    body = re.sub(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\)", r"\1* \1", body)
    for declaration in filter(None, (" ".join(part.split()) for part in body.split(";"))):
        function = re.fullmatch(r"\w+ \(\*(\w+)\)\(.*\)", declaration)
        field = re.fullmatch(r"(?:const |struct )*(\w+)((?: ?\*)*) ?(\w+)", declaration)
        if function:
            key, size, alignment = function[1], POINTER_BYTES, POINTER_BYTES
        elif field and field[2]:
            key, size, alignment = field[3], POINTER_BYTES, POINTER_BYTES
        elif field and field[1] in sizes:
            key, size, alignment = field[3], sizes[field[1]], alignments[field[1]]
        else:
            raise ValueError(f"{name} has a field of unknown size: {declaration}")
        offsets[key] = -(-end // alignment) * alignment
        end, widest = offsets[key] + size, max(widest, alignment)
    return Struct(offsets, -(-end // widest) * widest, widest)


def differences(text: str) -> list[str]:
    """Compare a header with the layout that handlers use, and return one line for each difference."""
    try:
        found = structs(text)
    except ValueError as error:
        return [str(error)]
    lines = []
    for name, known in KNOWN_OFFSETS.items():
        offsets = found[name].offsets if name in found else {}
        lines += [
            f"{name}.{field} is at byte {offsets.get(field, 'none')} instead of {at}"
            for field, at in known.items()
            if offsets.get(field) != at
        ]
    for name, size in KNOWN_SIZES.items():
        if name in found and found[name].size != size:
            lines.append(f"{name} has {found[name].size} bytes instead of {size}")
    for name, value in KNOWN_VALUES.items():
        values = re.findall(rf"\b{name} = (\d+)", text)
        if values != [str(value)]:
            lines.append(f"{name} is {', '.join(values) or 'missing'} instead of {value}")
    if not re.search(r"#define XLA_FFI_API_MAJOR 0\b", text):
        lines.append("the major version of the interface is not 0")
    return lines
