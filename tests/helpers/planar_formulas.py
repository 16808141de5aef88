"""Φ, Φ_q, ν and γ of every planar element by the formulas of Haug, chapter 3, typed in with NumPy.

Configurations need not satisfy Φ = 0, so terms that the book drops because they vanish there are put back;
each place says so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

# Rotation by 90°.
R = np.array([[0.0, -1.0], [1.0, 0.0]])
# Identity of the plane.
I2 = np.eye(2)


class State(NamedTuple):
    """A body's r, φ and their rates, as the formulas want them."""

    r: np.ndarray
    phi: float
    r_dot: np.ndarray
    w: float

    @property
    def A(self):
        """Return the rotation matrix A(φ)."""
        c, s = np.cos(self.phi), np.sin(self.phi)
        return np.array([[c, -s], [s, c]])

    @property
    def B(self):
        """Return dA/dφ."""
        return R @ self.A

    def point(self, s):
        """Return r + A s, a point of the body in the ground frame."""
        return self.r + self.A @ s

    def velocity(self, s):
        """Return the velocity of this point."""
        return self.r_dot + self.B @ s * self.w


class Rows(NamedTuple):
    """Contributions of an element: Φ, its Jacobians by q_i, q_j and its extra coordinates, ν and γ."""

    phi: np.ndarray
    by_i: np.ndarray
    by_j: np.ndarray
    nu: np.ndarray
    gamma: np.ndarray
    by_extra: np.ndarray | None = None


def row(*parts):
    """Return numbers and vectors as one row."""
    return np.concatenate([np.atleast_1d(part) for part in parts])


def block(by_r, by_phi):
    """Return [Φ_r, Φ_φ] of two rows."""
    return np.column_stack([by_r, by_phi])


def absolute_x(b, i, j, t, extra, C=0.0, C_dot=0.0, C_ddot=0.0):
    """Return the contributions of `AbsoluteX` with the value C and its rates."""
    x, y = b["point"]
    s, c = np.sin(j.phi), np.cos(j.phi)
    # (3.2.3), (3.2.5)
    return Rows(j.r[0] + x * c - y * s - C, None, row(1, 0, -x * s - y * c), C_dot, (x * c - y * s) * j.w**2 + C_ddot)


def absolute_y(b, i, j, t, extra, C=0.0, C_dot=0.0, C_ddot=0.0):
    """Return the contributions of `AbsoluteY` with the value C and its rates."""
    x, y = b["point"]
    s, c = np.sin(j.phi), np.cos(j.phi)
    # (3.2.4), (3.2.5)
    return Rows(j.r[1] + x * s + y * c - C, None, row(0, 1, x * c - y * s), C_dot, (x * s + y * c) * j.w**2 + C_ddot)


def absolute_angle(b, i, j, t, extra, C=0.0, C_dot=0.0, C_ddot=0.0):
    """Return the contributions of `AbsoluteAngle` with the value C and its rates."""
    # (3.2.6), (3.2.7)
    return Rows(j.phi - C, None, row(0, 0, 1), C_dot, C_ddot)


def absolute_distance(b, i, j, t, extra):
    """Return the contributions of `AbsoluteDistance`."""
    s, gap = b["point"], j.point(b["point"]) - b["centre"]
    v = j.velocity(s)
    # (3.2.1), (3.2.2)
    return Rows(
        gap @ gap - b["distance"] ** 2,
        None,
        2 * row(gap, s @ j.B.T @ gap),
        0,
        -2 * (v @ v - s @ j.A.T @ gap * j.w**2),
    )


def relative_x(b, i, j, t, extra, C=0.0, C_dot=0.0, C_ddot=0.0):
    """Return the contributions of `RelativeX` with the value C and its rates."""
    (x_i, y_i), (x_j, y_j) = b["point_i"], b["point_j"]
    s_i, c_i, s_j, c_j = np.sin(i.phi), np.cos(i.phi), np.sin(j.phi), np.cos(j.phi)
    # (3.3.1), (3.3.2)
    return Rows(
        j.r[0] + x_j * c_j - y_j * s_j - i.r[0] - x_i * c_i + y_i * s_i - C,
        row(-1, 0, x_i * s_i + y_i * c_i),
        row(1, 0, -x_j * s_j - y_j * c_j),
        C_dot,
        -(x_i * c_i - y_i * s_i) * i.w**2 + (x_j * c_j - y_j * s_j) * j.w**2 + C_ddot,
    )


def relative_y(b, i, j, t, extra, C=0.0, C_dot=0.0, C_ddot=0.0):
    """Return the contributions of `RelativeY` with the value C and its rates."""
    (x_i, y_i), (x_j, y_j) = b["point_i"], b["point_j"]
    s_i, c_i, s_j, c_j = np.sin(i.phi), np.cos(i.phi), np.sin(j.phi), np.cos(j.phi)
    # (3.3.3), (3.3.4)
    return Rows(
        j.r[1] + x_j * s_j + y_j * c_j - i.r[1] - x_i * s_i - y_i * c_i - C,
        row(0, -1, -x_i * c_i + y_i * s_i),
        row(0, 1, x_j * c_j - y_j * s_j),
        C_dot,
        -(x_i * s_i + y_i * c_i) * i.w**2 + (x_j * s_j + y_j * c_j) * j.w**2 + C_ddot,
    )


def relative_angle(b, i, j, t, extra, C=0.0, C_dot=0.0, C_ddot=0.0):
    """Return the contributions of `RelativeAngle` with the value C and its rates."""
    # (3.3.5), (3.3.6)
    return Rows(j.phi - i.phi - C, row(0, 0, -1), row(0, 0, 1), C_dot, C_ddot)


def distance(b, i, j, t, extra, C=0.0, C_dot=0.0, C_ddot=0.0):
    """Return the contributions of `Distance` with the value C and its rates."""
    s_i, s_j = b["point_i"], b["point_j"]
    gap, v = i.point(s_i) - j.point(s_j), i.velocity(s_i) - j.velocity(s_j)
    # (3.3.7), (3.3.8), Table 3.5.1
    return Rows(
        gap @ gap - C**2,
        2 * row(gap, s_i @ i.B.T @ gap),
        2 * row(-gap, -s_j @ j.B.T @ gap),
        2 * C * C_dot,
        -2 * (v @ v - (s_i @ i.A.T * i.w**2 - s_j @ j.A.T * j.w**2) @ gap) + 2 * C * C_ddot + 2 * C_dot**2,
    )


def revolute(b, i, j, t, extra):
    """Return the contributions of `Revolute`."""
    s_i, s_j = b["point_i"], b["point_j"]
    # (3.3.10), (3.3.12)
    return Rows(
        i.r + i.A @ s_i - j.r - j.A @ s_j,
        block(I2, i.B @ s_i),
        block(-I2, -j.B @ s_j),
        np.zeros(2),
        i.A @ s_i * i.w**2 - j.A @ s_j * j.w**2,
    )


def translational(b, i, j, t, extra):
    """Return the contributions of `Translational`."""
    s_i, s_j, v_i, v_j = b["point_i"], b["point_j"], b["axis_i"], b["axis_j"]
    A_ij, B_ij, r, r_dot, turn = i.A.T @ j.A, i.A.T @ j.B, j.r - i.r, j.r_dot - i.r_dot, j.w - i.w
    # (3.3.13), (3.3.14); the second entry of γ vanishes where Φ = 0 and is left out in the book.
    return Rows(
        row(v_i @ i.B.T @ r - v_i @ B_ij @ s_j - v_i @ R.T @ s_i, -v_i @ B_ij @ v_j),
        np.array([row(-v_i @ i.B.T, -v_i @ i.A.T @ r - v_i @ A_ij @ s_j), row(0, 0, -v_i @ A_ij @ v_j)]),
        np.array([row(v_i @ i.B.T, v_i @ A_ij @ s_j), row(0, 0, v_i @ A_ij @ v_j)]),
        np.zeros(2),
        -row(
            v_i @ (B_ij @ s_j * turn**2 - i.B.T @ r * i.w**2 - 2 * i.A.T @ r_dot * i.w),
            v_i @ B_ij @ v_j * turn**2,
        ),
    )


def revolute_translational(b, i, j, t, extra):
    """Return the contributions of `RevoluteTranslational`."""
    s_i, s_j, v_i, length = b["point_i"], b["point_j"], b["axis_i"], np.hypot(*b["axis_i"])
    A_ij, B_ij, r, r_dot, turn = i.A.T @ j.A, i.A.T @ j.B, j.r - i.r, j.r_dot - i.r_dot, j.w - i.w
    # (3.3.17), (3.3.18)
    return Rows(
        (v_i @ i.B.T @ r - v_i @ B_ij @ s_j - v_i @ R.T @ s_i) / length - b["offset"],
        row(-v_i @ i.B.T, -v_i @ i.A.T @ r - v_i @ A_ij @ s_j) / length,
        row(v_i @ i.B.T, v_i @ A_ij @ s_j) / length,
        0,
        v_i @ (2 * i.A.T @ r_dot * i.w + i.B.T @ r * i.w**2 - B_ij @ s_j * turn**2) / length,
    )


def gear(b, i, j, t, extra):
    """Return the contributions of `Gear`."""
    s_i, s_j, R_i, R_j = b["point_i"], b["point_j"], b["radius_i"], b["radius_j"]
    d, d_dot = j.point(s_j) - i.point(s_i), j.velocity(s_j) - i.velocity(s_i)
    theta = (R_i * (i.phi + b["angle_i"]) + R_j * (j.phi + b["angle_j"]) - R_j * np.pi) / (R_i + R_j)
    theta_dot = (R_i * i.w + R_j * j.w) / (R_i + R_j)
    u = np.array([np.cos(theta), np.sin(theta)])
    n = R @ u
    # (3.4.3) in its second form, Φ = −dᵀu⊥. (3.4.4) as printed is the Jacobian of dᵀu; with du⊥/dθ = −u that of −dᵀu⊥
    # is as follows. The last term of γ vanishes where Φ = 0 and is left out in the book, whose γ is that of +dᵀu⊥.
    return Rows(
        d[0] * np.sin(theta) - d[1] * np.cos(theta),
        row(n, s_i @ i.B.T @ n + d @ u * R_i / (R_i + R_j)),
        row(-n, -s_j @ j.B.T @ n + d @ u * R_j / (R_i + R_j)),
        0,
        -(2 * d_dot @ u * theta_dot + (j.A @ s_j * j.w**2 - i.A @ s_i * i.w**2) @ n + d @ n * theta_dot**2),
    )


def rack_pinion(b, i, j, t, extra):
    """Return the contributions of `RackPinion`."""
    s_i, s_j, v_i, R_j = b["point_i"], b["point_j"], b["axis_i"], b["radius_j"]
    A_ij, B_ij, r, r_dot, turn = i.A.T @ j.A, i.A.T @ j.B, j.r - i.r, j.r_dot - i.r_dot, j.w - i.w
    length, v = np.hypot(*v_i), i.A @ v_i
    alpha = i.phi + b["angle_i"] - j.phi - b["angle_j"] + 3 * np.pi / 2
    Q = i.point(s_i) + v
    # (3.4.13). Problem 3.4.4: with v_iᵀ(r_j^P − r_i) = v′ᵀA_iᵀ(r_j − r_i) + v′ᵀA_ij s_j′ the first row is that of the
    # translational driver, dα = dφ_i − dφ_j; the second is ‖v_i‖ times that of the revolute–translational joint.
    across = revolute_translational(b | {"offset": R_j}, i, j, t, extra)
    return Rows(
        row((j.point(s_j) - Q) @ v - length * R_j * alpha, length * across.phi),
        np.array(
            [row(-v_i @ i.A.T, v_i @ i.B.T @ r - v_i @ B_ij @ s_j - length * R_j), length * across.by_i],
        ),
        np.array([row(v_i @ i.A.T, v_i @ B_ij @ s_j + length * R_j), length * across.by_j]),
        np.zeros(2),
        row(
            v_i @ (i.A.T @ r * i.w**2 - 2 * i.B.T @ r_dot * i.w + A_ij @ s_j * turn**2),
            length * across.gamma,
        ),
    )


def outline(rho_derivatives, alpha):
    """Return a′ = ρu′, g′, g′_α and g′_αα from ρ and its first three derivatives, (3.4.16), (3.4.17)."""
    u = np.array([np.cos(alpha), np.sin(alpha)])
    n = R @ u
    p, p1, p2, p3 = rho_derivatives
    return p * u, p1 * u + p * n, (p2 - p) * u + 2 * p1 * n, (p3 - 3 * p1) * u + (3 * p2 - p) * n


def spline_outline(radii, alpha):
    """Return these terms of a periodic spline through radii at equal angles."""
    knots = np.linspace(0, 2 * np.pi, len(radii) + 1)
    spline = CubicSpline(knots, np.append(radii, radii[0]), bc_type="periodic")
    return outline([spline(alpha % (2 * np.pi), order) for order in range(4)], alpha)


def oval(c, alpha):
    """Return these terms of the oval ρ = c₀ + c₁ cos(2α + c₂)."""
    wave = 2 * alpha + c[2]
    sine, cosine = c[1] * np.sin(wave), c[1] * np.cos(wave)
    return outline([c[0] + cosine, -2 * sine, -4 * cosine, 8 * sine], alpha)


def cam_follower(b, i, j, t, extra):
    """Return the contributions of `CamFollower`, a spline on an oval."""
    (alpha_i, alpha_j), (rate_i, rate_j) = extra
    a_i, g_i, g_i1, g_i2 = spline_outline(b["radii_i"], alpha_i)
    a_j, g_j, g_j1, g_j2 = oval(b["oval_j"], alpha_j)
    w_i, w_j = b["point_i"] + a_i, b["point_j"] + a_j
    A_ij, B_ij, turn = i.A.T @ j.A, i.A.T @ j.B, j.w - i.w
    # (3.4.20), (3.4.21), (3.4.22); the last term of γ vanishes where Φ = 0 and is left out in the book.
    return Rows(
        row(i.point(w_i) - j.point(w_j), -g_i @ B_ij @ g_j),
        np.vstack([block(I2, i.B @ w_i), row(0, 0, -g_i @ A_ij @ g_j)]),
        np.vstack([block(-I2, -j.B @ w_j), row(0, 0, g_i @ A_ij @ g_j)]),
        np.zeros(3),
        row(
            i.A @ w_i * i.w**2
            - j.A @ w_j * j.w**2
            - i.A @ g_i1 * rate_i**2
            + j.A @ g_j1 * rate_j**2
            - 2 * i.B @ g_i * i.w * rate_i
            + 2 * j.B @ g_j * j.w * rate_j,
            g_i2 @ B_ij @ g_j * rate_i**2
            + g_i @ B_ij @ g_j2 * rate_j**2
            - 2 * (g_i1 @ A_ij @ g_j * rate_i + g_i @ A_ij @ g_j1 * rate_j) * turn
            + 2 * g_i1 @ B_ij @ g_j1 * rate_i * rate_j
            - g_i @ B_ij @ g_j * turn**2,
        ),
        np.column_stack([row(i.A @ g_i, -g_i1 @ B_ij @ g_j), row(-j.A @ g_j, -g_i @ B_ij @ g_j1)]),
    )


def cam_flat_follower(b, i, j, t, extra):
    """Return the contributions of `CamFlatFollower`, a spline on a line."""
    (alpha,), (rate,) = extra
    a, g, g1, g2 = spline_outline(b["radii_i"], alpha)
    w, u = b["point_i"] + a, b["axis_j"] / np.hypot(*b["axis_j"])
    A_ij, B_ij, turn = i.A.T @ j.A, i.A.T @ j.B, j.w - i.w
    gap, gap_dot = i.point(w) - j.r, i.velocity(w) + i.A @ g * rate - j.r_dot
    # (3.4.29), (3.4.30)
    return Rows(
        row((i.point(w) - j.point(b["point_j"])) @ j.B @ u, g @ B_ij @ u),
        np.array([row(u @ j.B.T, w @ A_ij @ u), row(0, 0, g @ A_ij @ u)]),
        np.array([row(-u @ j.B.T, -gap @ j.A @ u), row(0, 0, -g @ A_ij @ u)]),
        np.zeros(2),
        row(
            2 * gap_dot @ j.A @ u * j.w
            + w @ B_ij @ u * i.w**2
            + gap @ j.B @ u * j.w**2
            - g1 @ B_ij @ u * rate**2
            - 2 * g @ A_ij @ u * rate * i.w,
            g @ B_ij @ u * turn**2 - g2 @ B_ij @ u * rate**2 + 2 * g1 @ A_ij @ u * turn * rate,
        ),
        np.array([[g @ B_ij @ u], [g1 @ B_ij @ u]]),
    )


def point_follower(b, i, j, t, extra):
    """Return the contributions of `PointFollower`, a point on a spline."""
    (alpha,), (rate,) = extra
    a, g, g1, _ = spline_outline(b["radii_j"], alpha)
    s, w = b["point_i"], b["point_j"] + a
    # (3.4.31), (3.4.32) with the slot's centre away from the origin of body j
    return Rows(
        i.point(s) - j.point(w),
        block(I2, i.B @ s),
        block(-I2, -j.B @ w),
        np.zeros(2),
        i.A @ s * i.w**2 - j.A @ w * j.w**2 + j.A @ g1 * rate**2 + 2 * j.B @ g * j.w * rate,
        (-j.A @ g)[:, None],
    )


def harmonic(amplitude, frequency, phase, offset):
    """Return a function of t: offset + amplitude sin(frequency t + phase), and its first two derivatives."""
    angle = lambda t: frequency * t + phase
    return lambda t: (
        offset + amplitude * np.sin(angle(t)),
        amplitude * frequency * np.cos(angle(t)),
        -amplitude * frequency**2 * np.sin(angle(t)),
    )


def polynomial(coefficients):
    """Return a function of t: a polynomial and its first two derivatives."""
    C = np.polynomial.Polynomial(coefficients)
    return lambda t: (C(t), C.deriv()(t), C.deriv(2)(t))


def spline(times, values):
    """Return a function of t: a spline and its first two derivatives."""
    C = CubicSpline(times, values)
    return lambda t: (C(t), C(t, 1), C(t, 2))


def chirp(c):
    """Return a function of t: c₀ + c₁ sin(c₂ t + t²) and its first two derivatives."""
    return lambda t: (
        c[0] + c[1] * np.sin(c[2] * t + t**2),
        c[1] * np.cos(c[2] * t + t**2) * (c[2] + 2 * t),
        2 * c[1] * np.cos(c[2] * t + t**2) - c[1] * np.sin(c[2] * t + t**2) * (c[2] + 2 * t) ** 2,
    )


def constant(constraint, name):
    """Return the formulas of a kinematic constraint, with C the number b[name]."""
    return lambda b, i, j, t, extra: constraint(b, i, j, t, extra, b[name])


def driven(constraint, motion):
    """Return the formulas of a constraint's driver, with C a function of time, (3.5.19)."""
    return lambda b, i, j, t, extra: constraint(b, i, j, t, extra, *motion(b)(t))


def revolute_driver(b, i, j, t, extra):
    """Return the contributions of `RevoluteDriver`."""
    C, C_dot, C_ddot = harmonic(*b["motion"])(t)
    # (3.5.11), (3.3.6)
    return relative_angle(b, i, j, t, extra, C - b["angle_j"] + b["angle_i"], C_dot, C_ddot)


def translational_driver(b, i, j, t, extra):
    """Return the contributions of `TranslationalDriver`."""
    s_i, s_j, v_i, length = b["point_i"], b["point_j"], b["axis_i"], np.hypot(*b["axis_i"])
    A_ij, B_ij, r, r_dot, turn = i.A.T @ j.A, i.A.T @ j.B, j.r - i.r, j.r_dot - i.r_dot, j.w - i.w
    C, C_dot, C_ddot = polynomial(b["motion"])(t)
    # (3.5.12). (3.5.13) and Table 3.5.1 take A_ij as constant; the terms with s_j′ in Φ_φ and γ are from its change.
    return Rows(
        v_i @ i.A.T @ r + v_i @ A_ij @ s_j - v_i @ s_i - length * C,
        row(-v_i @ i.A.T, v_i @ i.B.T @ r - v_i @ B_ij @ s_j),
        row(v_i @ i.A.T, v_i @ B_ij @ s_j),
        length * C_dot,
        v_i @ (i.A.T @ r * i.w**2 - 2 * i.B.T @ r_dot * i.w + A_ij @ s_j * turn**2) + length * C_ddot,
    )


# Function of the formulas of each planar element by name.
FORMULAS = {
    "AbsoluteX": constant(absolute_x, "value"),
    "AbsoluteY": constant(absolute_y, "value"),
    "AbsoluteAngle": constant(absolute_angle, "value"),
    "AbsoluteDistance": absolute_distance,
    "RelativeX": constant(relative_x, "offset"),
    "RelativeY": constant(relative_y, "offset"),
    "RelativeAngle": constant(relative_angle, "offset"),
    "Distance": constant(distance, "distance"),
    "Revolute": revolute,
    "Translational": translational,
    "RevoluteTranslational": revolute_translational,
    "Gear": gear,
    "Gear, internal": gear,
    "RackPinion": rack_pinion,
    "CamFollower": cam_follower,
    "CamFlatFollower": cam_flat_follower,
    "PointFollower": point_follower,
    "AbsoluteXDriver": driven(absolute_x, lambda b: harmonic(**b["motion"])),
    "AbsoluteYDriver": driven(absolute_y, lambda b: polynomial(b["motion"])),
    "AbsoluteAngleDriver": driven(absolute_angle, lambda b: spline(**b)),
    "RelativeXDriver": driven(relative_x, lambda b: chirp(b["motion"])),
    "RelativeYDriver": driven(relative_y, lambda b: harmonic(*b["motion"])),
    "RelativeAngleDriver": driven(relative_angle, lambda b: polynomial((b["start"], b["rate"]))),
    "DistanceDriver": driven(distance, lambda b: chirp(b["motion"])),
    "RevoluteDriver": revolute_driver,
    "TranslationalDriver": translational_driver,
}
