"""NVIDIA's driver, as far as kernels need it: load one, or explain why not."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from jaxmbs.programs.runtime import tuning

# File name of the shared library that is NVIDIA's driver.
LIBRARY = "libcuda.so.1"
# Number in `cuda.h` of the option CU_JIT_ERROR_LOG_BUFFER of the driver's compiler: a buffer for error messages.
ERROR_LOG = 5
# Number in `cuda.h` of the option of the driver's compiler for the size of the buffer of error messages.
ERROR_LOG_BYTES = 6
# Number in `cuda.h` of the kernel attribute that is the number of bytes of a thread outside its registers.
LOCAL_BYTES = 3
# Number in `cuda.h` of the device attribute that is the number of its multiprocessors.
MULTIPROCESSORS = 16
# Number in `cuda.h` of the device attribute that is the largest number of threads of a multiprocessor.
THREADS_OF_ONE = 39
# Size of the buffer for error messages of the driver's compiler, in bytes; longer messages are cut off.
LOG_BYTES = 8192


class DriverError(RuntimeError):
    """Raised if NVIDIA's driver refuses a kernel or a call; the message is its reason."""


class LoadedKernel(NamedTuple):
    """A loaded kernel: the driver's handle, and the addresses of its functions that run it and explain errors."""

    function: int
    launch: int
    explain: int


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return NVIDIA's driver library, None if there is none that works."""
    try:
        found = ctypes.CDLL(LIBRARY)
    except OSError:
        return None
    return found if found.cuInit(0) == 0 else None


def devices() -> list[jax.Device]:
    """Return the GPUs that JAX computes on in this process, an empty list without any."""
    try:
        return list(jax.local_devices(backend="cuda"))
    except RuntimeError:
        return []


@functools.cache
def capability() -> tuple[int, int]:
    """Return the lowest compute capability (major, minor) of the GPUs that JAX computes on; (8, 0) without GPUs."""
    found = [tuple(map(int, x.compute_capability.split("."))) for x in devices()]
    major, minor = min(found, default=(8, 0))
    return major, minor


# Arguments of the driver's compiler, which may use them until a kernel is first launched.
_given: list[object] = []


def load(ptx: str) -> LoadedKernel:
    """Return the kernel `entry` of a module in PTX, loaded for all GPUs; it stays loaded.

    Raises:
        DriverError: the driver refuses it, with the message of its compiler; or its threads need too much memory.
    """
    driver = library()
    assert driver is not None
    log = ctypes.create_string_buffer(LOG_BYTES)
    options = (ctypes.c_int * 2)(ERROR_LOG, ERROR_LOG_BYTES)
    values = (ctypes.c_void_p * 2)(ctypes.cast(log, ctypes.c_void_p), LOG_BYTES)
    _given.append((log, options, values))
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    try:
        code = driver.cuLibraryLoadData(ctypes.byref(module), ptx.encode(), options, values, 2, None, None, 0)
        code = code or driver.cuLibraryGetKernel(ctypes.byref(kernel), module, b"entry")
        if code != 0 or kernel.value is None:
            raise DriverError(f"{_reason(driver, code)} {log.value.decode(errors='replace').strip()}".strip())
        for device in devices():
            _check_memory(driver, kernel, device.local_hardware_id)
    except AttributeError as error:
        raise DriverError("the driver is older than CUDA 12") from error
    address: Callable[[Any], int] = lambda function: ctypes.cast(function, ctypes.c_void_p).value or 0
    return LoadedKernel(kernel.value, address(driver.cuLaunchKernel), address(driver.cuGetErrorString))


def _check_memory(driver: ctypes.CDLL, kernel: ctypes.c_void_p, number: int) -> None:
    """Check that all threads that a GPU can hold find their memory.

    For this the driver compiles the kernel, which it would else do at the first launch.

    Raises:
        DriverError: they need more than `tuning.LOCAL_MEMORY_FRACTION`.
    """
    local, device, count, threads = (ctypes.c_int() for _ in range(4))
    total = ctypes.c_size_t()
    code = driver.cuDeviceGet(ctypes.byref(device), number)
    code = code or driver.cuKernelGetAttribute(ctypes.byref(local), LOCAL_BYTES, kernel, device)
    for value, attribute in ((count, MULTIPROCESSORS), (threads, THREADS_OF_ONE)):
        code = code or driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
    code = code or driver.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    if code != 0:
        raise DriverError(_reason(driver, code))
    needed = local.value * count.value * threads.value
    if needed > tuning.LOCAL_MEMORY_FRACTION * total.value:
        raise DriverError(
            f"{local.value} bytes for each of {count.value * threads.value} threads are {needed / 2**30:.1f} GB of "
            f"{total.value / 2**30:.1f}"
        )


def _reason(driver: ctypes.CDLL, code: int) -> str:
    """Return the text that the driver has for an error code."""
    text = ctypes.c_char_p()
    driver.cuGetErrorString(code, ctypes.byref(text))
    return (text.value or b"unknown error").decode()
