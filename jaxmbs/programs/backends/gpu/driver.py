"""NVIDIA's driver, as far as kernels need it: load one, and say why not."""

from __future__ import annotations

import ctypes
import functools

import jax
from llvmlite import binding

LIBRARY = "libcuda.so.1"
# Options of the driver's compiler, and attributes of a kernel, by their numbers in `cuda.h`.
ERROR_LOG, ERROR_LOG_BYTES = 5, 6
LOCAL_BYTES, REGISTERS = 3, 4
LOG_BYTES = 8192


class DriverError(RuntimeError):
    """What the driver refuses, and its reason."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """The driver, None where there is none that works."""
    try:
        found = ctypes.CDLL(LIBRARY)
    except OSError:
        return None
    if found.cuInit(0) != 0:
        return None
    binding.load_library_permanently(LIBRARY)
    return found


@functools.cache
def capability() -> tuple[int, int]:
    """The least compute capability of the GPUs that JAX sees; 8.0 if it sees none."""
    try:
        devices = jax.local_devices(backend="cuda")
    except RuntimeError:
        return 8, 0
    major, minor = min(tuple(map(int, x.compute_capability.split("."))) for x in devices)
    return major, minor


def load(ptx: str) -> int:
    """The handle of the kernel `entry` of a module in PTX. It is the same for all GPUs, and stays loaded.

    Raises:
        DriverError: the driver does not take it; with what its compiler says.
    """
    driver = library()
    assert driver is not None
    log = ctypes.create_string_buffer(LOG_BYTES)
    options = (ctypes.c_int * 2)(ERROR_LOG, ERROR_LOG_BYTES)
    values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), LOG_BYTES)
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    try:
        code = driver.cuLibraryLoadData(ctypes.byref(module), ptx.encode(), options, values, 2, None, None, 0)
        code = code or driver.cuLibraryGetKernel(ctypes.byref(kernel), module, b"entry")
        # Asked for a number, the driver compiles what it would else compile at the first launch.
        registers = ctypes.c_int()
        code = code or driver.cuKernelGetAttribute(ctypes.byref(registers), REGISTERS, kernel, 0)
    except AttributeError as error:
        raise DriverError("the driver is older than CUDA 12") from error
    if code != 0 or kernel.value is None:
        raise DriverError(f"{_reason(driver, code)}. {log.value.decode(errors='replace').strip()}")
    return kernel.value


def _reason(driver: ctypes.CDLL, code: int) -> str:
    text = ctypes.c_char_p()
    driver.cuGetErrorString(code, ctypes.byref(text))
    return (text.value or b"unknown error").decode()
