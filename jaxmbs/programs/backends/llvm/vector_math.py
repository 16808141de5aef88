"""Elementary functions as branch-free LLVM IR, for scalars and for vectors of any number of lanes alike.

Each function appends its operations to a builder's block: no calls but intrinsics that the hardware has, no branches,
no tables, no memory. Every lane so takes the same path, and a loop around them stays vector code on AVX2, AVX-512 and
NEON: quadrants and exponents come from the low bits of a sum with a large number, never from a conversion to integers,
which AVX2 lacks.

All need hardware that fuses multiplication with addition (elsewhere each such operation is a slow call), rounding to
nearest, and infinities and NaN that mean something: no fast-math flags here, and none of the function attributes that
stand for them (`"no-nans-fp-math"` and the like) in the code around.

The polynomials are near-minimax in the relative error of the function: Remez exchanges in 60 digits for all
coefficients, the lowest one rounded to the format, then again for the others. That leaves errors below 0.3 units in
the last place. The leading terms (r, 1 - r²/2, 1 + r, 2s) are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir


@dataclass(frozen=True)
class _Format:
    """A floating-point format, with the constants of the functions in it."""

    name: str  # in the names of LLVM's intrinsics
    width: int  # bits of a number
    mantissa: int  # bits after the leading one
    half_pi: tuple[float, float, float]  # parts of full length, their sum is pi/2
    sin_cos_limit: int  # binary exponent from which on sin and cos are NaN
    sin: tuple[float, ...]  # (sin r / r - 1) / z in z = r², up to a little over pi/4
    cos: tuple[float, ...]  # (cos r - 1 + z/2) / z² in z = r²
    ln2: tuple[float, float]  # parts of full length, their sum is ln 2
    exp_range: tuple[float, float]  # beyond: 0 and infinity
    exp: tuple[float, ...]  # (exp r - 1 - r) / r² in r, |r| <= ln 2 / 2
    log: tuple[float, ...]  # (2 artanh s / s - 2) / z in z = s², s <= 0.1716
    atan: tuple[float, ...]  # (arctan q / q - 1) / z in z = q², q <= 1

    @property
    def bias(self) -> int:
        """The bias of the stored exponent, which is also the largest exponent."""
        return (1 << (self.width - self.mantissa - 2)) - 1

    @property
    def magic(self) -> float:
        """1.5 · 2^mantissa: a number added to it is rounded to an integer, which the low bits of the sum hold."""
        return 1.5 * 2.0**self.mantissa

    @property
    def sign_bit(self) -> int:
        """The integer with only the sign bit set."""
        return 1 << (self.width - 1)

    @property
    def one_bits(self) -> int:
        """The bits of the number 1.0 as an integer."""
        return self.bias << self.mantissa


# fmt: off
# The format float64 with the constants of its functions.
_DOUBLE = _Format(
    name="f64",
    width=64,
    mantissa=52,
    half_pi=(1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
    sin_cos_limit=45,
    sin=(
        -0.16666666666666627, 0.008333333333321128, -0.00019841269828771576, 2.755731332987351e-06,
        -2.5050701017582675e-08, 1.58934621441843e-10,
    ),
    cos=(
        0.04166666666666659, -0.001388888888887216, 2.480158728826814e-05, -2.755731400493363e-07,
        2.0875676458171786e-09, -1.1357242527776287e-11,
    ),
    ln2=(0.6931471805599453, 2.3190468138462996e-17),
    exp_range=(-746.0, 710.0),
    exp=(
        0.5000000000000011, 0.1666666666666641, 0.04166666666652973, 0.00833333333349498,
        0.001388888894375879, 0.0001984126950576047, 2.480149295080446e-05, 2.755758681881435e-06,
        2.7630305859655486e-07, 2.50000138317822e-08,
    ),
    log=(
        0.6666666666666734, 0.39999999999416935, 0.28571428741933214, 0.22222198616225244,
        0.1818356223962748, 0.153141006679538, 0.14795476906833513,
    ),
    atan=(
        -0.3333333333333186, 0.19999999999755186, -0.1428571427134137, 0.11111110678887422,
        -0.09090901237200097, 0.07692212946370902, -0.06665860461454236, 0.05877308219650721,
        -0.052392345393903986, 0.04673953634033118, -0.04092646333882805, 0.03406793712968225,
        -0.02582694809830784, 0.01697817436761087, -0.009184654179974326, 0.0038560220831568566,
        -0.0011640877774904764, 0.0002230257219519537, -2.0258870146809226e-05,
    ),
)

# The format float32 with the constants of its functions.
_SINGLE = _Format(
    name="f32",
    width=32,
    mantissa=23,
    half_pi=(1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    sin_cos_limit=20,
    sin=(-0.16666653752326965, 0.008332095108926296, -0.0001950554142240435),
    cos=(0.04166664183139801, -0.0013887130189687014, 2.4412085622316226e-05),
    ln2=(0.6931471824645996, -1.9046542121259336e-09),
    exp_range=(-104.0, 89.0),
    exp=(0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.00836874544620514, 0.0013814540579915047),
    log=(0.6666677594184875, 0.3997758626937866, 0.29870694875717163),
    atan=(
        -0.33333152532577515, 0.19993767142295837, -0.14211007952690125, 0.10665840655565262,
        -0.07551945745944977, 0.043209806084632874, -0.016367362812161446, 0.0029207176994532347,
    ),
)
# fmt: on


def constant(type_: ir.Type, value: float) -> ir.Constant:
    """Return `value` as a constant of `type_`, in every lane if that is a vector."""
    if isinstance(type_, ir.VectorType):
        return ir.Constant(type_, [value] * type_.count)
    return ir.Constant(type_, value)


def sin_cos(builder: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return (sin x, cos x), for x in radians.

    Cody and Waite's reduction by multiples of pi/2 in three parts with fused operations, then a polynomial for each on
    [-pi/4, pi/4]; the multiple's last two bits swap the two and set the signs. Errors stay below 1.6 units in the last
    place for |x| < 1e5, near the zeros too, and below 1.5e-16 (float64) or 8e-8 (float32) everywhere. The sine of -0
    is +0: the sign would cost an operation.

    NaN for NaN, the infinities and |x| >= 2^45 (float64) or 2^20 (float32): beyond, the multiple of pi/2 becomes
    inexact before long, and an angle known to no better than 2^-7 (2^-3) is not an angle to compute with.
    """
    type_ = x.type
    format_ = format_of(type_)
    # x overflows from the limit on and then makes a NaN of itself: two operations, and off the critical path.
    scaled = builder.fmul(x, constant(type_, 2.0 ** (format_.bias + 1 - format_.sin_cos_limit)))
    guarded = fma(builder, scaled, constant(type_, 0.0), x)

    magic = constant(type_, format_.magic)
    shifted = fma(builder, x, constant(type_, 0.6366197723675814), magic)
    n = builder.fsub(shifted, magic)
    # The first product cancels enough bits of x for its sum to be exact.
    r = guarded
    for part in format_.half_pi:
        r = fma(builder, n, constant(type_, -part), r)

    z = builder.fmul(r, r)
    sin_r = fma(builder, builder.fmul(r, z), horner(builder, z, format_.sin), r)
    cos_r = horner(builder, z, (1.0, -0.5, *format_.cos))

    # n's last bit swaps; the one before is the sine's sign, and the exclusive or of both is the cosine's.
    bits = bits_type(type_)
    quadrant = builder.bitcast(shifted, bits)
    last = builder.and_(quadrant, constant(bits, 1))
    swap = builder.icmp_unsigned("!=", last, constant(bits, 0))
    sign_of_sin = builder.shl(quadrant, constant(bits, format_.width - 2))
    sign_of_cos = builder.add(sign_of_sin, constant(bits, 1 << (format_.width - 2)))
    sin = _flip_sign(builder, builder.select(swap, cos_r, sin_r), sign_of_sin)
    cos = _flip_sign(builder, builder.select(swap, sin_r, cos_r), sign_of_cos)
    return sin, cos


def exp(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the exponential function of `x`.

    x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial for exp(r), and 2^n as a product of two factors, each a normal
    number: so results underflow gradually and the largest ones do not overflow early. Errors stay below 1 unit in
    the last place. Infinity and 0 where the result over- or underflows, NaN for NaN.
    """
    type_ = x.type
    format_ = format_of(type_)
    r, half, rest = powers_of_two(builder, x)
    exp_r = horner(builder, r, (1.0, 1.0, *format_.exp))
    to_exponent = constant(bits_type(type_), format_.mantissa)
    for exponent in (half, rest):
        factor = builder.bitcast(builder.shl(exponent, to_exponent), type_)
        exp_r = builder.fmul(exp_r, factor)
    return exp_r


def powers_of_two(builder: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return r, a and b in x = (a + b) ln 2 + r with |r| <= ln 2 / 2.

    a and b are integers with the bias of an exponent, whose higher bits mean nothing. x is limited to the range in
    which its exponential is neither 0 nor infinite.
    """
    type_ = x.type
    format_ = format_of(type_)
    low, high = (constant(type_, bound) for bound in format_.exp_range)
    # Comparisons that are false for NaN let it pass.
    x = builder.select(builder.fcmp_ordered("<", x, low), low, x)
    x = builder.select(builder.fcmp_ordered(">", x, high), high, x)

    # The biases of both factors' exponents ride along in the low bits.
    magic = constant(type_, format_.magic + 2 * format_.bias)
    shifted = fma(builder, x, constant(type_, 1.4426950408889634), magic)
    n = builder.fsub(shifted, magic)
    r = x
    for part in format_.ln2:
        r = fma(builder, n, constant(type_, -part), r)
    bits = bits_type(type_)
    half = fma(builder, n, constant(type_, 0.5), constant(type_, format_.magic + format_.bias))
    half_bits = builder.bitcast(half, bits)
    return r, half_bits, builder.sub(builder.bitcast(shifted, bits), half_bits)


def log(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the natural logarithm of `x`.

    x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and log(1 + f) = 2 artanh(s), s = f / (2 + f), summed as
    fdlibm does it: f - (f²/2 - s (f²/2 + R(s²))), whose leading terms are exact. Errors stay below 1.5 units in the
    last place over all positive numbers, subnormal ones included. -infinity at both zeros, NaN for negative numbers
    and for NaN, infinity at infinity. One division.
    """
    type_ = x.type
    format_ = format_of(type_)
    f, k, half_square, s, series = _terms_of_log(builder, x)
    small = fma(builder, s, series, builder.fmul(k, constant(type_, format_.ln2[1])))
    mantissa_log = builder.fsub(f, builder.fsub(half_square, small))
    result = fma(builder, k, constant(type_, format_.ln2[0]), mantissa_log)
    return _with_special_values(builder, x, result)


def parts_of_log(builder: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the natural logarithm of `x` as the sum of two numbers.

    It is within an eighth of a unit in the last place of the first. If that is not finite, the second is NaN or 0.
    """
    type_ = x.type
    format_ = format_of(type_)
    f, k, half_square, s, series = _terms_of_log(builder, x)
    small = builder.fmul(s, series)
    ln2, ln2_low = (constant(type_, part) for part in format_.ln2)
    product = builder.fmul(k, ln2)
    lost = fma(builder, k, ln2_low, fma(builder, k, ln2, builder.fneg(product)))
    lost_square = fma(builder, builder.fmul(f, constant(type_, 0.5)), f, builder.fneg(half_square))
    total, error = _two_sum(builder, product, f)
    total, other = _two_sum(builder, total, builder.fneg(half_square))
    low = builder.fadd(builder.fadd(error, other), builder.fadd(builder.fsub(lost, lost_square), small))
    high, low = _two_sum(builder, total, low)
    return _with_special_values(builder, x, high), low


def _two_sum(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return a + b rounded, and the rounding error (Knuth)."""
    total = builder.fadd(a, b)
    part = builder.fsub(total, a)
    return total, builder.fadd(builder.fsub(a, builder.fsub(total, part)), builder.fsub(b, part))


def _terms_of_log(builder: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ...]:
    """Return f, k, f²/2, s and f²/2 + R(s²) of the formula of `log`."""
    type_ = x.type
    format_ = format_of(type_)
    bits = bits_type(type_)
    subnormal = builder.fcmp_ordered("<", x, constant(type_, 2.0 ** (1 - format_.bias)))
    lift = format_.mantissa + 2
    lifted = builder.select(subnormal, builder.fmul(x, constant(type_, 2.0**lift)), x)

    # Shifted so that the exponent's field steps at sqrt(1/2) in place of 1; `k` is read off as a float's low bits.
    sqrt_half = constant(bits, _SQRT_HALF_BITS[format_.width])
    step = constant(bits, format_.one_bits - _SQRT_HALF_BITS[format_.width])
    shifted = builder.add(builder.bitcast(lifted, bits), step)
    fraction = builder.and_(shifted, constant(bits, (1 << format_.mantissa) - 1))
    f = builder.fsub(builder.bitcast(builder.add(fraction, sqrt_half), type_), constant(type_, 1.0))
    exponent = builder.lshr(shifted, constant(bits, format_.mantissa))
    unit = 2.0**format_.mantissa
    unit_bits = constant(bits, (format_.bias + format_.mantissa) << format_.mantissa)
    offset = builder.select(
        subnormal, constant(type_, unit + format_.bias + lift), constant(type_, unit + format_.bias)
    )
    k = builder.fsub(builder.bitcast(builder.or_(exponent, unit_bits), type_), offset)

    s = builder.fdiv(f, builder.fadd(f, constant(type_, 2.0)))
    z = builder.fmul(s, s)
    half_square = builder.fmul(builder.fmul(f, constant(type_, 0.5)), f)
    return f, k, half_square, s, fma(builder, z, horner(builder, z, format_.log), half_square)


def _with_special_values(builder: ir.IRBuilder, x: ir.Value, result: ir.Value) -> ir.Value:
    """Return `result`, a logarithm of x, corrected where x is zero, infinite, negative or NaN."""
    type_ = x.type
    # Not less than infinity: infinity or NaN, which pass as they are.
    zero, infinity = constant(type_, 0.0), constant(type_, float("inf"))
    result = builder.select(builder.fcmp_ordered("<", x, infinity), result, x)
    at_zero = builder.fcmp_ordered("==", x, zero)
    outside = builder.select(at_zero, constant(type_, float("-inf")), constant(type_, float("nan")))
    return builder.select(builder.fcmp_unordered(">", x, zero), result, outside)


def atan2(builder: ir.IRBuilder, y: ir.Value, x: ir.Value) -> ir.Value:
    """Return the angle of the point (x, y), in [-pi, pi].

    The smaller over the larger of |x| and |y|, with x's sign, a polynomial for the arc tangent on [-1, 1], and a
    multiple of pi/2 in two parts. Errors stay below 2 units in the last place. Zeros with their signs and infinities
    give what C's atan2 gives, NaN in either argument gives NaN. One division.
    """
    type_ = x.type
    format_ = format_of(type_)
    bits = bits_type(type_)
    zero, one = constant(type_, 0.0), constant(type_, 1.0)
    x_bits = builder.bitcast(x, bits)
    x_sign = builder.and_(x_bits, constant(bits, format_.sign_bit))
    abs_x = intrinsic(builder, "fabs", x)
    abs_y = intrinsic(builder, "fabs", y)
    steep = builder.fcmp_ordered(">", abs_y, abs_x)
    quotient = builder.fdiv(builder.select(steep, builder.fneg(x), abs_y), builder.select(steep, abs_y, x))
    # Two zeros or two infinities divide to NaN: on the diagonals the quotient is known, 1 or at the origin 0.
    diagonal = builder.select(builder.fcmp_ordered("==", y, zero), zero, one)
    diagonal = builder.bitcast(builder.or_(builder.bitcast(diagonal, bits), x_sign), type_)
    q = builder.select(builder.fcmp_ordered("==", abs_y, abs_x), diagonal, quotient)

    z = builder.fmul(q, q)
    angle = fma(builder, builder.fmul(q, z), horner(builder, z, format_.atan), q)

    half_pi, half_pi_low, _ = format_.half_pi
    behind = builder.icmp_signed("<", x_bits, constant(bits, 0))
    base = builder.select(behind, constant(type_, 2 * half_pi), zero)
    base = builder.select(steep, constant(type_, half_pi), base)
    # The base's lower part is the same multiple of its upper part for 0, pi/2 and pi.
    angle = builder.fadd(base, fma(builder, base, constant(type_, half_pi_low / half_pi), angle))
    return intrinsic(builder, "copysign", angle, y)


# Bits of √½ as an integer, by width of the format.
_SQRT_HALF_BITS = {64: 0x3FE6A09E667F3BCD, 32: 0x3F3504F3}


def format_of(type_: ir.Type) -> _Format:
    """Return the format of a floating-point type, scalar or vector."""
    element = type_.element if isinstance(type_, ir.VectorType) else type_
    if isinstance(element, ir.DoubleType):
        return _DOUBLE
    if isinstance(element, ir.FloatType):
        return _SINGLE
    raise TypeError(f"float or double, or a vector of these, is needed, not {type_}")


def bits_type(type_: ir.Type) -> ir.Type:
    """Return the integer type of the same shape and width."""
    integer = ir.IntType(format_of(type_).width)
    return ir.VectorType(integer, type_.count) if isinstance(type_, ir.VectorType) else integer


def intrinsic(builder: ir.IRBuilder, name: str, *arguments: ir.Value) -> ir.Value:
    """Return a call of llvm.`name`, whose arguments and result are all of one type."""
    type_ = arguments[0].type
    lanes = f"v{type_.count}" if isinstance(type_, ir.VectorType) else ""
    mangled = f"llvm.{name}.{lanes}{format_of(type_).name}"
    function = builder.module.globals.get(mangled)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(type_, [type_] * len(arguments)), mangled)
    return builder.call(function, arguments)


def fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Return a b + c, rounded once."""
    return intrinsic(builder, "fma", a, b, c)


def horner(builder: ir.IRBuilder, z: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Return the polynomial in `z`, its coefficients from the constant term up: the fewest operations, if not the shortest.

    Estrin's scheme is shorter in time for one vector alone, but takes more operations; two or more vectors in flight
    hide Horner's latency.
    """
    *rest, last = coefficients
    value = constant(z.type, last)
    for coefficient in reversed(rest):
        value = fma(builder, value, z, constant(z.type, coefficient))
    return value


def _flip_sign(builder: ir.IRBuilder, value: ir.Value, bits: ir.Value) -> ir.Value:
    """Return `value`, negated if the top bit of `bits` is set."""
    type_ = value.type
    sign = builder.and_(bits, constant(bits.type, format_of(type_).sign_bit))
    return builder.bitcast(builder.xor(builder.bitcast(value, bits.type), sign), type_)
