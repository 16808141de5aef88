"""Elementary functions in LLVM IR: errors in units in the last place, special values, scalars against vectors."""

import ctypes
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from jaxmbs.programs.backends.llvm import exponentials, vector_math

DTYPES = [np.float64, np.float32]
LANES = 16
# If long double is not wider than double, the reference itself is off by up to a unit.
SLACK = 0.0 if np.finfo(np.longdouble).eps < np.finfo(np.float64).eps else 1.0
INF = np.inf
NAN = np.nan
PI = np.pi


# The largest error in units in the last place, and the largest argument whose value is finite in float64 and float32.
EXPONENTIALS = {
    "expm1": (2.1, (709.7, 88.7)), "log1p": (2, (1e300, 1e38)), "cbrt": (2, (1e308, 3e38)), "sinh": (3, (710.4, 89.4)),
    "cosh": (3, (710.4, 89.4)), "tanh": (3, (1e3, 1e3)), "asinh": (3, (1e308, 3e38)), "acosh": (3, (1e308, 3e38)),
    "atanh": (3, (1.0, 1.0)),
}  # fmt: skip


def one_result(f):
    return lambda builder, x: (f(builder, x),)


# name: number of arguments, number of results, what emits it
FUNCTIONS = {
    "sin_cos": (1, 2, vector_math.sin_cos),
    "exp": (1, 1, lambda builder, x: (vector_math.exp(builder, x),)),
    "log": (1, 1, lambda builder, x: (vector_math.log(builder, x),)),
    "atan2": (2, 1, lambda builder, y, x: (vector_math.atan2(builder, y, x),)),
    "pow": (2, 1, lambda builder, x, y: (exponentials.pow(builder, x, y),)),
    **{name: (1, 1, one_result(getattr(exponentials, name))) for name in EXPONENTIALS},
}


def function_module(name: str, dtype: type, lanes: int, features: str) -> ir.Module:
    """A module with one function: a loop over vectors, from arrays in to arrays out."""
    inputs, outputs, emit = FUNCTIONS[name]
    element = ir.DoubleType() if dtype is np.float64 else ir.FloatType()
    vector = element if lanes == 1 else ir.VectorType(element, lanes)
    long, pointer = ir.IntType(64), ir.PointerType()
    module = ir.Module(name)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [long] + [pointer] * (inputs + outputs)), "run")
    if "+avx512f" in features:
        for width in ("prefer-vector-width", "min-legal-vector-width"):
            set.add(function.attributes, f'"{width}"="512"')
    count, *arrays = function.args
    entry, body, end = (function.append_basic_block(block) for block in ("entry", "body", "end"))
    builder = ir.IRBuilder(entry)
    builder.branch(body)
    builder.position_at_end(body)
    i = builder.phi(long)
    at = [builder.gep(array, [i], source_etype=vector) for array in arrays]
    align = np.dtype(dtype).itemsize
    values = [builder.load(p, align=align, typ=vector) for p in at[:inputs]]
    for value, p in zip(emit(builder, *values), at[inputs:], strict=True):
        builder.store(value, p, align=align)
    following = builder.add(i, long(1))
    i.add_incoming(long(0), entry)
    i.add_incoming(following, body)
    builder.cbranch(builder.icmp_unsigned("<", following, count), body, end)
    builder.position_at_end(end)
    builder.ret_void()
    return module


@cache
def compiled(name: str, dtype: type, lanes: int):
    """The engine, to be kept alive, and the function; no loop is vectorised, so that lanes=1 stays scalar."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2
    )
    module = llvm.parse_assembly(str(function_module(name, dtype, lanes, features)))
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    inputs, outputs, _ = FUNCTIONS[name]
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (inputs + outputs))
    return engine, prototype(engine.get_function_address("run"))


def evaluate(name: str, *arguments, lanes: int = LANES):
    """The function's values, one array or a tuple of them, in the first argument's dtype."""
    dtype = arguments[0].dtype.type
    _, function = compiled(name, dtype, lanes)
    size = arguments[0].size
    blocks = -(-size // lanes)
    arrays = [np.ones(blocks * lanes, dtype) for _ in range(len(arguments) + FUNCTIONS[name][1])]
    for array, argument in zip(arrays, arguments, strict=False):
        array[:size] = argument
    function(blocks, *[array.ctypes.data for array in arrays])
    results = tuple(array[:size] for array in arrays[len(arguments) :])
    return results if len(results) > 1 else results[0]


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


def largest_error(value: np.ndarray, exact: np.ndarray) -> float:
    """In units in the last place of the exact value; infinities have to agree."""
    rounded = exact.astype(value.dtype)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(value[~finite], rounded[~finite])
    distance = np.abs(value[finite].astype(exact.dtype) - exact[finite])
    return float(np.max(distance / np.spacing(np.abs(rounded[finite])))) - (SLACK if value.itemsize == 8 else 0.0)


def either_sign(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, -x])


def angles(dtype: type, largest: float, points: int = 100_000) -> np.ndarray:
    rng = np.random.default_rng(1)
    tiny = np.log10(np.finfo(dtype).tiny)
    return np.concatenate(
        [
            either_sign(np.logspace(tiny, np.log10(largest), points, dtype=np.float64).astype(dtype)),
            either_sign(np.logspace(-3, np.log10(largest), points, dtype=np.float64).astype(dtype)),
            rng.uniform(-largest, largest, points).astype(dtype),
            rng.uniform(-PI, PI, points).astype(dtype),
        ]
    )


def near_quarter_turns(dtype: type, largest: float) -> np.ndarray:
    """The numbers next to multiples of pi/2, where sine or cosine almost vanishes."""
    multiples = (np.arange(1, int(largest / (PI / 2))) * (np.longdouble(PI) / 2)).astype(dtype)
    near = [multiples + step * np.spacing(multiples) for step in range(-3, 4)]
    return either_sign(np.concatenate(near).astype(dtype))


def special(dtype: type, *values) -> list[np.ndarray]:
    return [np.array(value, dtype) for value in values]


def assert_same_with_signs(value, expected):
    np.testing.assert_array_equal(value, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(value[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("dtype", DTYPES)
class TestSinCos:
    def test_errors(self, dtype):
        for x in (angles(dtype, 1e5), near_quarter_turns(dtype, 1e5)):
            sin, cos = evaluate("sin_cos", x)
            assert largest_error(sin, np.sin(wide(x))) < 1.6
            assert largest_error(cos, np.cos(wide(x))) < 1.6

    def test_large_angles(self, dtype):
        largest = 1e9 if dtype is np.float64 else 2.0**20 - 1
        x = angles(dtype, largest)
        for value, exact in zip(evaluate("sin_cos", x), (np.sin(wide(x)), np.cos(wide(x))), strict=True):
            assert np.max(np.abs(value - exact)) < 0.67 * np.finfo(dtype).eps * (1 + SLACK)

    def test_limit(self, dtype):
        limit = dtype(2.0**45 if dtype is np.float64 else 2.0**20)
        (x,) = special(dtype, [limit, -limit, 2 * limit, np.finfo(dtype).max, np.finfo(dtype).min, INF, -INF, NAN])
        for value in evaluate("sin_cos", x):
            assert np.isnan(value).all()
        inside = either_sign(limit - np.spacing(limit / 2) * np.arange(1, 1000, dtype=dtype))
        for value, exact in zip(evaluate("sin_cos", inside), (np.sin(wide(inside)), np.cos(wide(inside))), strict=True):
            assert np.max(np.abs(value - exact)) < 0.67 * np.finfo(dtype).eps * (1 + SLACK)

    def test_small_angles(self, dtype):
        least = np.finfo(dtype).smallest_subnormal
        x = either_sign(np.array([0.0, least, 3 * least, np.finfo(dtype).tiny, 1e-30], dtype))
        sin, cos = evaluate("sin_cos", x)
        np.testing.assert_array_equal(sin, x)
        np.testing.assert_array_equal(cos, np.ones_like(x))


@pytest.mark.parametrize("dtype", DTYPES)
class TestExp:
    def test_errors(self, dtype):
        low, high = (-746.5, 710.5) if dtype is np.float64 else (-104.5, 89.5)
        rng = np.random.default_rng(2)
        x = np.concatenate(
            [
                rng.uniform(low, high, 200_000),
                rng.uniform(-1, 1, 100_000),
                either_sign(np.logspace(-20, 1.8, 50_000)),
                np.linspace(low, low / 1.2, 50_000),
            ]
        ).astype(dtype)
        with np.errstate(over="ignore", under="ignore"):
            assert largest_error(evaluate("exp", x), np.exp(wide(x))) < 1

    def test_special_values(self, dtype):
        x, expected = special(dtype, [0.0, -0.0, INF, -INF, NAN, 1e4, -1e4], [1, 1, INF, 0, NAN, INF, 0])
        assert_same_with_signs(evaluate("exp", x), expected)


@pytest.mark.parametrize("dtype", DTYPES)
class TestLog:
    def test_errors(self, dtype):
        info = np.finfo(dtype)
        low, high = np.log10(float(info.tiny)), np.log10(float(info.max))
        rng = np.random.default_rng(3)
        near_one = 1 + np.arange(-500, 500) * float(info.eps) / 2
        x = np.concatenate(
            [
                10 ** rng.uniform(low, high, 200_000),
                rng.uniform(0.4, 2.5, 200_000),
                near_one,
                2.0 ** np.arange(-100, 100),
                [float(info.max), float(info.tiny)],
            ]
        ).astype(dtype)
        subnormal = info.smallest_subnormal * np.unique(np.logspace(0, info.nmant * np.log10(2), 5000).astype(dtype))
        for points in (x, np.floor(subnormal / info.smallest_subnormal) * info.smallest_subnormal):
            assert largest_error(evaluate("log", points), np.log(wide(points))) < 1

    def test_special_values(self, dtype):
        x = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, -float(np.finfo(dtype).smallest_subnormal)]
        x, expected = special(dtype, x, [-INF, -INF, INF, NAN, NAN, 0.0, NAN, NAN])
        assert_same_with_signs(evaluate("log", x), expected)


@pytest.mark.parametrize("dtype", DTYPES)
class TestAtan2:
    def test_errors(self, dtype):
        rng = np.random.default_rng(4)
        n = 200_000
        angle, radius = rng.uniform(-PI, PI, n), 10 ** rng.uniform(-15, 15, n)
        exponent = 30 if dtype is np.float32 else 300
        low = np.log10(float(np.finfo(dtype).smallest_subnormal))
        cases = [
            (radius * np.sin(angle), radius * np.cos(angle)),
            (10 ** rng.uniform(low, exponent, n) * rng.choice([-1, 1], n), rng.choice([-1, 1], n) * 10.0**exponent),
            (
                10 ** rng.uniform(-5, 5, n) * rng.choice([-1, 1], n),
                10 ** rng.uniform(-5, 5, n) * rng.choice([-1, 1], n),
            ),
            (rng.uniform(0.9, 1.1, n) * rng.choice([-1, 1], n), rng.uniform(0.9, 1.1, n) * rng.choice([-1, 1], n)),
        ]
        with np.errstate(over="ignore", under="ignore"):
            for y, x in cases:
                y, x = y.astype(dtype), x.astype(dtype)
                assert largest_error(evaluate("atan2", y, x), np.arctan2(wide(y), wide(x))) < 2

    def test_special_values(self, dtype):
        info = np.finfo(dtype)
        values = [0.0, info.smallest_subnormal, info.tiny, 0.5, 1.0, 3.0, info.max, INF]
        values = either_sign(np.array(values, dtype))
        y, x = (grid.ravel() for grid in np.meshgrid(values, values))
        expected = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(dtype)
        angle = evaluate("atan2", y, x)
        np.testing.assert_array_max_ulp(angle, expected, 2, dtype)
        np.testing.assert_array_equal(np.signbit(angle), np.signbit(expected))
        exact = (y == 0) | (x == 0) | np.isinf(y) | np.isinf(x) | (np.abs(x) == np.abs(y))
        straight = exact & (np.abs(x) != np.abs(y))
        np.testing.assert_array_equal(angle[straight], expected[straight])

    def test_nan(self, dtype):
        values = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN], dtype)
        nan = np.full_like(values, NAN)
        assert np.isnan(evaluate("atan2", values, nan)).all()
        assert np.isnan(evaluate("atan2", nan, values)).all()


INVERSE = {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EXPONENTIALS)
def test_exponentials(name, dtype):
    """Errors all over the range, and next to 0, ±1 and the ends; C's values where it ends."""
    most, (double, single) = EXPONENTIALS[name]
    end = double if dtype is np.float64 else single
    info, exact = np.finfo(dtype), getattr(np, INVERSE.get(name, name))
    rng = np.random.default_rng(6)
    x = either_sign(
        np.concatenate(
            [
                np.logspace(np.log10(float(info.smallest_subnormal)), np.log10(end), 100_000),
                np.logspace(-6, min(3, np.log10(end)), 100_000),
                rng.uniform(0, min(end, 50), 100_000),
                1 + np.arange(-300, 300) * float(info.eps) / 2,
                end * (1 - np.arange(1, 300) * float(info.eps)),
            ]
        ).astype(dtype)
    )
    with np.errstate(all="ignore"):
        expected = exact(wide(x))
        ordinary = np.isfinite(expected.astype(dtype))
        # In subnormal numbers long double has no more digits than double.
        value = evaluate(name, x)
        assert largest_error(value[ordinary], expected[ordinary]) < most
        np.testing.assert_array_equal(np.isnan(value), np.isnan(expected))
        ends = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e30, -1e30], dtype)
        value, expected = evaluate(name, ends), exact(ends)
    special = ~np.isfinite(expected) | (expected == 0)
    assert_same_with_signs(value[special], expected[special])


@pytest.mark.parametrize("dtype", DTYPES)
class TestPow:
    def test_errors(self, dtype):
        """Two units, and an eighth of one for each unit of |y log x|."""
        rng = np.random.default_rng(7)
        low, high = (-300, 300) if dtype is np.float64 else (-37, 37)
        for x, y in [
            (10 ** rng.uniform(low, high, 200_000), rng.uniform(-3, 3, 200_000)),
            (rng.uniform(0.5, 2, 200_000), rng.uniform(-100, 100, 200_000)),
            (1 + rng.normal(size=100_000) * 1e-3, 10 ** rng.uniform(0, 5, 100_000)),
            (-(10 ** rng.uniform(-5, 5, 50_000)), rng.integers(-8, 8, 50_000).astype(float)),
        ]:
            x, y = x.astype(dtype), y.astype(dtype)
            with np.errstate(all="ignore"):
                exact, value = wide(x) ** wide(y), evaluate("pow", x, y)
                rounded = exact.astype(dtype)
                ordinary = np.isfinite(rounded) & (np.abs(rounded) >= np.finfo(dtype).tiny)
                allowed = 2 + 0.125 * np.abs(wide(y) * np.log(np.abs(wide(x)))) + SLACK
                error = np.abs(value.astype(exact.dtype) - exact) / np.spacing(np.abs(rounded))
            assert (error < allowed)[ordinary].all(), np.max((error / allowed)[ordinary])

    def test_special_values(self, dtype):
        values = either_sign(np.array([0.0, 0.5, 1.0, 2.0, 3.0, 4.5, 1e30, INF, NAN], dtype))
        x, y = (grid.ravel() for grid in np.meshgrid(values, values))
        with np.errstate(all="ignore"):
            expected, value = np.power(x, y), evaluate("pow", x, y)
        np.testing.assert_allclose(value, expected, rtol=100 * np.finfo(dtype).eps)
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(value[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_scalars_equal_vectors_bit_for_bit(name, dtype):
    rng = np.random.default_rng(5)
    integer = np.uint64 if dtype is np.float64 else np.uint32
    moderate = rng.normal(scale=20, size=(2, 20_000)).astype(dtype)
    any_bits = rng.integers(0, np.iinfo(integer).max, size=(2, 20_000), dtype=integer).view(dtype)
    arguments = np.concatenate([moderate, any_bits], axis=1)[: FUNCTIONS[name][0]]
    scalars, vectors = (np.array(evaluate(name, *arguments, lanes=lanes)) for lanes in (1, LANES))
    np.testing.assert_array_equal(np.isnan(scalars), np.isnan(vectors))
    number = ~np.isnan(scalars)
    np.testing.assert_array_equal(scalars[number].view(integer), vectors[number].view(integer))


def test_constants_are_rounded_to_their_type():
    pair = ir.VectorType(ir.FloatType(), 2)
    rounded = float(np.float32(0.1))
    for type_, value in ((ir.FloatType(), 0.1), (pair, 0.1)):
        assert str(vector_math.constant(type_, value)) == str(vector_math.constant(type_, rounded))


def test_other_types_are_refused():
    builder = ir.IRBuilder(
        ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(64)]), "f").append_basic_block()
    )
    with pytest.raises(TypeError, match="float or double"):
        vector_math.exp(builder, builder.function.args[0])
