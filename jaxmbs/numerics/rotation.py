"""Rotations of space: Euler parameters, rotation matrices, Euler vectors and body-fixed angles 1-2-3.

Conventions: a rotation takes components in the frame of a body to components in a reference frame.
Euler parameters are p = (e₀, e₁, e₂, e₃), scalar first, pᵀp = 1; p and −p are the same rotation. The Euler vector
θ = φ u turns by φ about the unit vector u. Angular velocities ω are in the frame of the body.
Everything is differentiable to any order, also at zero rotation. `jax.jit` lets the functions used most be traced once.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxmbs.numerics.series import ARCTAN, SERIES_LIMIT, cos, cotangent_excess, even, excess, sinc, versine

Parameters = Float[Array, "4"]
Vector = Float[Array, "3"]
Matrix = Float[Array, "3 3"]

# `between` takes directions as opposite if the angle between them differs from π by less than this, in radians.
MAX_OPPOSITE_ANGLE = 1e-6


@jax.jit
def cross(a: Vector, b: Vector) -> Vector:
    """Return a × b.

    Args:
        a: (3,).
        b: (3,).

    Returns:
        (3,), in units of a times units of b.

    Examples:
        >>> print(mbs.rotation.cross(jnp.array([1.0, 0, 0]), jnp.array([0.0, 2, 0])))
        [0. 0. 2.]
    """
    return jnp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


@jax.jit
def skew(a: Vector) -> Matrix:
    """Return ã with ã b = a × b.

    Args:
        a: (3,).

    Returns:
        (3, 3), antisymmetric.

    Examples:
        >>> print(mbs.rotation.skew(jnp.array([1.0, 2, 3])))
        [[ 0. -3.  2.]
         [ 3.  0. -1.]
         [-2.  1.  0.]]
    """
    zero = jnp.zeros_like(a[0])
    rows = (zero, -a[2], a[1]), (a[2], zero, -a[0]), (-a[1], a[0], zero)
    return jnp.stack([jnp.stack(row) for row in rows])


def identity(dtype: jax.typing.DTypeLike | None = None) -> Parameters:
    """Return the Euler parameters of no rotation, p = (1, 0, 0, 0).

    Args:
        dtype: floating-point type; that of JAX unless given.

    Returns:
        (4,).

    Examples:
        >>> print(mbs.rotation.identity())
        [1. 0. 0. 0.]
    """
    return jnp.array([1.0, 0, 0, 0], dtype)


@jax.jit
def product(p: Parameters, q: Parameters) -> Parameters:
    """Return p ∘ q, first q, then p: A(p ∘ q) = A(p) A(q).

    Args:
        p: (4,), Euler parameters of the second rotation.
        q: (4,), Euler parameters of the first rotation.

    Returns:
        (4,), Euler parameters.

    Examples:
        >>> quarter = mbs.rotation.about(2, jnp.pi / 2)
        >>> print(mbs.rotation.product(quarter, quarter).round(6))  # a half turn about z
        [0. 0. 0. 1.]
    """
    scalar = p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3]
    vector = p[0] * q[1:] + q[0] * p[1:] + cross(p[1:], q[1:])
    return jnp.append(scalar, vector)


def inverse(p: Parameters) -> Parameters:
    """Return the Euler parameters of the inverse rotation, A(inverse) = A(p)ᵀ.

    Args:
        p: (4,), Euler parameters.

    Returns:
        (4,), (e₀, −e₁, −e₂, −e₃).

    Examples:
        >>> print(mbs.rotation.inverse(mbs.rotation.about(2, jnp.pi)).round(6))
        [ 0.  0.  0. -1.]
    """
    return jnp.append(p[0], -p[1:])


@jax.jit
def normalised(p: Parameters) -> Parameters:
    """Return p / ‖p‖; the identity for p = 0, NaN if p is not finite.

    Args:
        p: (4,).

    Returns:
        (4,), of unit length.

    Examples:
        >>> print(mbs.rotation.normalised(jnp.array([3.0, 0, 0, 4.0])))
        [0.6 0.  0.  0.8]
    """
    square = p @ p
    known = square != 0
    return jnp.where(known, p / jnp.sqrt(jnp.where(known, square, 1)), identity(p.dtype))


@jax.jit
def matrix(p: Float[Array, "4 *batch"]) -> Float[Array, "3 3 *batch"]:
    """Return A(p) = (2 e₀² − 1) I + 2 (e eᵀ + e₀ ẽ), from the body frame to the reference frame.

    Args:
        p: (4,), Euler parameters.

    Returns:
        (3, 3), orthogonal; its columns are the body's axes in the reference frame.

    Examples:
        >>> print(mbs.rotation.matrix(mbs.rotation.about(2, jnp.pi / 2)).round(6))
        [[ 0. -1.  0.]
         [ 1.  0.  0.]
         [ 0.  0.  1.]]
    """
    w, x, y, z = p
    return jnp.stack([
        jnp.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]),
        jnp.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]),
        jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]),
    ])  # fmt: skip


@jax.jit
def from_matrix(a: Matrix) -> Parameters:
    """Return p with A(p) = a, computed from its largest component, so that no rotation loses digits.

    Args:
        a: (3, 3), a rotation matrix.

    Returns:
        (4,), of unit length. One of p and −p, which are the same rotation.

    Examples:
        >>> print(mbs.rotation.from_matrix(jnp.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])).round(6))
        [0.707107 0.       0.       0.707107]
    """
    a = jnp.asarray(a)
    d = jnp.diagonal(a)
    trace = d[0] + d[1] + d[2]
    squares = jnp.append(1 + trace, 1 + 2 * d - trace)
    off = lambda i, j, sign: a[i, j] + sign * a[j, i]
    differences = jnp.stack([off(2, 1, -1), off(0, 2, -1), off(1, 0, -1)])
    xy, xz, yz = off(0, 1, 1), off(0, 2, 1), off(1, 2, 1)
    candidates = jnp.stack([
        jnp.append(squares[0], differences),
        jnp.stack([differences[0], squares[1], xy, xz]),
        jnp.stack([differences[1], xy, squares[2], yz]),
        jnp.stack([differences[2], xz, yz, squares[3]]),
    ])  # fmt: skip
    largest, best = squares[0], candidates[0]
    for square, candidate in zip(squares[1:], candidates[1:], strict=True):
        better = square > largest
        largest, best = jnp.where(better, square, largest), jnp.where(better, candidate, best)
    return normalised(best)


def rate(p: Parameters, omega: Vector) -> Parameters:
    """Return ṗ = ½ p ∘ (0, ω), the rates of Euler parameters at the angular velocity ω.

    Args:
        p: (4,), Euler parameters.
        omega: (3,), angular velocity in the frame of the body.

    Returns:
        (4,), per unit of time.

    Examples:
        >>> print(mbs.rotation.rate(mbs.rotation.identity(), jnp.array([0.0, 0, 3])))
        [-0.   0.   0.   1.5]
    """
    e0, e = p[0], p[1:]
    return jnp.append(-(e @ omega), e0 * omega + cross(e, omega)) / 2


def angular_velocity(p: Parameters, p_dot: Parameters) -> Vector:
    """Return ω with ṗ = ½ p ∘ (0, ω), in the frame of the body.

    Args:
        p: (4,), Euler parameters.
        p_dot: (4,), their rates.

    Returns:
        (3,), in radians per unit of time.

    Examples:
        >>> print(mbs.rotation.angular_velocity(mbs.rotation.identity(), jnp.array([0.0, 0, 0, 1.5])))
        [0. 0. 3.]
    """
    return 2 * (p[0] * p_dot[1:] - p_dot[0] * p[1:] - cross(p[1:], p_dot[1:]))


@jax.jit
def exp(theta: Vector) -> Parameters:
    """Return Euler parameters (cos φ/2, sin φ/2 u) of the Euler vector θ = φ u.

    Args:
        theta: (3,), θ in radians.

    Returns:
        (4,), Euler parameters.

    Examples:
        >>> print(mbs.rotation.exp(jnp.array([0.0, 0, jnp.pi / 3])).round(6))
        [0.866025 0.       0.       0.5     ]
    """
    quarter = theta @ theta / 4
    return jnp.append(cos(quarter), sinc(quarter) * theta / 2)


@jax.jit
def log(p: Parameters) -> Vector:
    """Return the Euler vector of a rotation, 0 ≤ φ ≤ π. At φ = π it is one of the two possible vectors, ±π u.

    Args:
        p: (4,), Euler parameters.

    Returns:
        (3,), in radians.

    Examples:
        >>> print(mbs.rotation.log(mbs.rotation.about(2, 0.5)).round(6))
        [0.  0.  0.5]
    """
    p = jnp.where(p[0] < 0, -p, p)
    square = p[1:] @ p[1:]
    # 2 atan2(‖e‖, e₀) / ‖e‖ as a function of t = ‖e‖² / e₀², with 2 / e₀ before it.
    near = square < SERIES_LIMIT * p[0] ** 2
    e0 = jnp.where(near, p[0], 1)
    series = 2 / e0 * even(ARCTAN, lambda t: t, jnp.where(near, square, 0) / e0**2)
    size = jnp.sqrt(jnp.where(near, 1, square))
    far = 2 * jnp.arctan2(size, jnp.where(near, 1, p[0])) / size
    return jnp.where(near, series, far) * p[1:]


def exp_matrix(theta: Vector) -> Matrix:
    """Return R = I + sin φ/φ θ̃ + (1 − cos φ)/φ² θ̃θ̃, Rodrigues' formula.

    Args:
        theta: (3,), the Euler vector θ = φ u in radians.

    Returns:
        (3, 3), the rotation matrix.

    Examples:
        >>> print(mbs.rotation.exp_matrix(jnp.array([0.0, 0, jnp.pi / 2])).round(6))
        [[ 0. -1.  0.]
         [ 1.  0.  0.]
         [ 0.  0.  1.]]
    """
    s, tilde = theta @ theta, skew(theta)
    return jnp.eye(3, dtype=theta.dtype) + sinc(s) * tilde + versine(s) * tilde @ tilde


def log_matrix(a: Matrix) -> Vector:
    """Return the Euler vector of a rotation matrix, 0 ≤ φ ≤ π.

    Args:
        a: (3, 3), a rotation matrix.

    Returns:
        (3,), in radians.

    Examples:
        >>> print(mbs.rotation.log_matrix(jnp.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])).round(6))
        [0.       0.       1.570796]
    """
    return log(from_matrix(a))


def gamma(theta: Vector) -> Matrix:
    """Return Γ(θ) = I + (1 − cos φ)/φ² θ̃ + (φ − sin φ)/φ³ θ̃θ̃.

    Γ θ̇ is the angular velocity in the reference frame, Γᵀ θ̇ the angular velocity in the frame of the body.

    Args:
        theta: (3,), the Euler vector θ = φ u in radians.

    Returns:
        (3, 3).

    Examples:
        >>> print(mbs.rotation.gamma(jnp.array([0.0, 0, jnp.pi])).round(6))
        [[ 0.      -0.63662  0.     ]
         [ 0.63662  0.       0.     ]
         [ 0.       0.       1.     ]]
    """
    s, tilde = theta @ theta, skew(theta)
    return jnp.eye(3, dtype=theta.dtype) + versine(s) * tilde + excess(s) * tilde @ tilde


def gamma_inverse(theta: Vector) -> Matrix:
    """Return Γ⁻¹(θ) = I − ½ θ̃ + (1 − φ/2 cot φ/2)/φ² θ̃θ̃; singular at φ = 2π.

    Args:
        theta: (3,), the Euler vector θ = φ u in radians.

    Returns:
        (3, 3).

    Examples:
        >>> print(mbs.rotation.gamma_inverse(jnp.array([0.0, 0, 1])).round(6))
        [[ 0.915244  0.5       0.      ]
         [-0.5       0.915244  0.      ]
         [ 0.        0.        1.      ]]
    """
    s, tilde = theta @ theta, skew(theta)
    return jnp.eye(3, dtype=theta.dtype) - tilde / 2 + cotangent_excess(s) * tilde @ tilde


@jax.jit
def turned(p: Parameters, theta: Vector) -> Parameters:
    """Return p ∘ exp(θ): p turned by an Euler vector in the frame of the body, with ‖p‖ = 1 restored after rounding.

    Args:
        p: (4,), Euler parameters.
        theta: (3,), the Euler vector θ in radians.

    Returns:
        (4,), Euler parameters.

    Examples:
        >>> print(mbs.rotation.turned(mbs.rotation.identity(), jnp.array([0.0, 0, jnp.pi / 3])).round(6))
        [0.866025 0.       0.       0.5     ]
    """
    p = product(p, exp(theta))
    # One step of Newton's method for 1/‖p‖ suffices, because rounding is small.
    return p * ((3 - p @ p) / 2)


@jax.jit
def chart_rate(theta: Vector, omega: Vector) -> Vector:
    """Return θ̇ = Γ⁻ᵀ(θ) ω if p ∘ exp(θ) moves with ω, to the fourth order: ω + ½ θ×ω + ¹/₁₂ θ×(θ×ω).

    Args:
        theta: (3,), the Euler vector θ in radians.
        omega: (3,), ω in the frame of the body.

    Returns:
        (3,), in radians per unit of time.

    Examples:
        >>> print(mbs.rotation.chart_rate(jnp.array([0.0, 0, 0.6]), jnp.array([1.0, 0, 2])))
        [0.97 0.3  2.  ]
    """
    first = cross(theta, omega)
    return omega + first / 2 + cross(theta, first) / 12


def about(axis: int, angle: Float[Array, ""] | float) -> Parameters:
    """Return Euler parameters of a rotation about a coordinate axis.

    Args:
        axis: 0, 1 or 2.
        angle: in radians.

    Returns:
        (4,), Euler parameters.

    Examples:
        >>> print(mbs.rotation.about(0, jnp.pi / 3).round(6))
        [0.866025 0.5      0.       0.      ]
    """
    angle = jnp.asarray(angle)
    c, s = jnp.cos(angle / 2), jnp.sin(angle / 2)
    return jnp.stack([c, *(s if k == axis else jnp.zeros_like(s) for k in range(3))])


def from_angles(angles: Vector) -> Parameters:
    """Return Euler parameters of A = A₁(θ₁) A₂(θ₂) A₃(θ₃): rotations about x, then the new y, then the new z.

    Args:
        angles: (3,), θ in radians.

    Returns:
        (4,), Euler parameters.

    Examples:
        >>> print(mbs.rotation.from_angles(jnp.array([0.0, jnp.pi / 3, 0])).round(6))
        [0.866025 0.       0.5      0.      ]
    """
    first, second, third = (about(k, angles[k]) for k in range(3))
    return product(product(first, second), third)


def to_angles(p: Parameters) -> Vector:
    """Return body-fixed angles 1-2-3 with |θ₂| ≤ π/2. If cos θ₂ = 0 they are not unique.

    Args:
        p: (4,), Euler parameters.

    Returns:
        (3,), θ in radians.

    Examples:
        >>> print(mbs.rotation.to_angles(mbs.rotation.from_angles(jnp.array([0.1, 0.2, 0.3]))).round(6))
        [0.1 0.2 0.3]
    """
    a = matrix(p)
    return jnp.stack([
        jnp.arctan2(-a[1, 2], a[2, 2]),
        jnp.arctan2(a[0, 2], jnp.sqrt(a[0, 0] ** 2 + a[0, 1] ** 2)),
        jnp.arctan2(-a[0, 1], a[0, 0]),
    ])  # fmt: skip


def angles_to_velocity(angles: Vector) -> Matrix:
    """Return E(θ) with ω = E θ̇, in the frame of the body, for body-fixed angles 1-2-3; det E = cos θ₂.

    Args:
        angles: (3,), θ in radians.

    Returns:
        (3, 3).

    Examples:
        >>> print(mbs.rotation.angles_to_velocity(jnp.array([0.0, jnp.pi / 6, 0])).round(6))
        [[0.866025 0.       0.      ]
         [0.       1.       0.      ]
         [0.5      0.       1.      ]]
    """
    (c2, c3), (s2, s3) = jnp.cos(angles[1:]), jnp.sin(angles[1:])
    zero, one = jnp.zeros_like(c2), jnp.ones_like(c2)
    rows = (c2 * c3, s3, zero), (-c2 * s3, c3, zero), (s2, zero, one)
    return jnp.stack([jnp.stack(row) for row in rows])


def velocity_to_angles(angles: Vector) -> Matrix:
    """Return E⁻¹(θ) with θ̇ = E⁻¹ ω, for body-fixed angles 1-2-3; infinite if cos θ₂ = 0.

    Args:
        angles: (3,), θ in radians.

    Returns:
        (3, 3).

    Examples:
        >>> print(mbs.rotation.velocity_to_angles(jnp.array([0.0, jnp.pi / 3, 0])).round(6))
        [[ 2.       0.       0.      ]
         [ 0.       1.       0.      ]
         [-1.732051  0.       1.      ]]
    """
    (c2, c3), (s2, s3) = jnp.cos(angles[1:]), jnp.sin(angles[1:])
    zero, one = jnp.zeros_like(c2), jnp.ones_like(c2)
    rows = (c3 / c2, -s3 / c2, zero), (s3, c3, zero), (-s2 * c3 / c2, s2 * s3 / c2, one)
    return jnp.stack([jnp.stack(row) for row in rows])


@jax.jit
def between(u: Vector, w: Vector) -> Parameters:
    """Return the shortest rotation that takes one direction to another; if they are opposite, one of the shortest.

    Args:
        u: (3,), the first direction, of any length.
        w: (3,), the second direction, of any length.

    Returns:
        (4,), Euler parameters.

    Examples:
        >>> print(mbs.rotation.between(jnp.array([1.0, 0, 0]), jnp.array([0.0, 2, 0])).round(6))
        [0.707107 0.       0.       0.707107]
    """
    u, w = u / jnp.sqrt(u @ u), w / jnp.sqrt(w @ w)
    middle = u + w
    opposite = middle @ middle < MAX_OPPOSITE_ANGLE**2
    # Opposite directions: a half turn about an axis across u, made with the coordinate axis that is farthest from u.
    size = jnp.abs(u)
    x_least = (size[0] <= size[1]) & (size[0] <= size[2])
    y_least = ~x_least & (size[1] <= size[2])
    across = cross(u, jnp.stack([x_least, y_least, ~x_least & ~y_least]).astype(u.dtype))
    half_turn = jnp.append(jnp.zeros_like(u[0]), across / jnp.sqrt(across @ across))
    middle = jnp.where(opposite, w - u, middle)
    rest = normalised(jnp.append(middle @ middle / 2, cross(jnp.where(opposite, -u, u), middle)))
    return jnp.where(opposite, product(rest, half_turn), rest)


def along(axis: Vector) -> Parameters:
    """Return Euler parameters of a frame with a given z axis: the shortest rotation that takes z there.

    Args:
        axis: (3,), the direction, of any length.

    Returns:
        (4,), Euler parameters.

    Examples:
        >>> print(mbs.rotation.along(jnp.array([3.0, 0, 0])).round(6))
        [0.707107 0.       0.707107 0.      ]
    """
    axis = jnp.asarray(axis)
    return between(jnp.array([0.0, 0, 1], axis.dtype), axis)
