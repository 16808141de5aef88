// The four-bar of models.py, handwritten: RK4 of many systems with different link lengths, one system per lane.
//
// Bars 0, 1, 2 are crank, coupler, rocker: uniform rods of mass = length with their frames in the middle. With
// u = half (cos, sin) and w = half (-sin, cos) of each bar, the constraints are
//
//     O: u0 - r0 = 0,   A: r0 + u0 - r1 + u1 = 0,   B: r1 + u1 - r2 - u2 = 0,   C: r2 - u2 - (ground, 0) = 0
//
// (C has the opposite sign of models.py, which changes only the sign of its multiplier). They are differentiated by hand;
// the multipliers follow from S lambda = Phi_q M^-1 Q - gamma with the block tridiagonal S = Phi_q M^-1 Phi_q^T, whose
// 2x2 blocks are eliminated from both ends. Accelerations depend on the angles and their rates only, so RK4 needs no
// positions at its inner stages; it is written for second-order equations, the same method with fewer operations. The
// processor is then busy with arithmetic only. The first and last blocks of S are a multiple of I plus a dyad, whose
// closed-form inverse would save another eighth of the operations; it is left out, as it is not part of the method.
//
// To be compiled with -O3 -march=native and without -ffast-math.

#include <algorithm>
#include <cstdint>

#ifndef LANES
#define LANES 8
#endif

typedef double Vector __attribute__((vector_size(8 * LANES)));
typedef int64_t Bits __attribute__((vector_size(8 * LANES)));

#define INLINE static inline __attribute__((always_inline))
#define INLINE_MEMBER inline __attribute__((always_inline))

namespace {

constexpr double GRAVITY = 9.81;

// A number that counts the operations on it. Changes of sign are free, since they merge with the next operation.
struct Counter {
    static long operations;
    Counter(double = 0) {}
};
long Counter::operations = 0;
Counter count(int operations) { return Counter::operations += operations, Counter(); }
Counter operator+(Counter, Counter) { return count(1); }
Counter operator-(Counter, Counter) { return count(1); }
Counter operator*(Counter, Counter) { return count(1); }
Counter operator/(Counter, Counter) { return count(1); }
Counter operator-(Counter x) { return x; }

// x with its sign changed if the integer in the low bits of `rounded` is odd.
INLINE Vector flip_if_odd(Vector x, Vector rounded) { return (Vector)((Bits)x ^ ((Bits)rounded << 63)); }
INLINE Counter flip_if_odd(Counter, Counter) { return count(2); }

template <class Real> struct Two { // a vector of the plane
    Real x, y;
};
template <class Real> INLINE Two<Real> operator+(Two<Real> a, Two<Real> b) { return {a.x + b.x, a.y + b.y}; }
template <class Real> INLINE Two<Real> operator-(Two<Real> a, Two<Real> b) { return {a.x - b.x, a.y - b.y}; }
template <class Real> INLINE Two<Real> operator*(Real a, Two<Real> b) { return {a * b.x, a * b.y}; }
template <class Real> INLINE Real dot(Two<Real> a, Two<Real> b) { return a.x * b.x + a.y * b.y; }

template <class Real> struct Symmetric { // a symmetric 2x2 matrix
    Real xx, xy, yy;
};
template <class Real> INLINE Symmetric<Real> operator+(Symmetric<Real> a, Symmetric<Real> b) {
    return {a.xx + b.xx, a.xy + b.xy, a.yy + b.yy};
}
template <class Real> INLINE Symmetric<Real> operator-(Symmetric<Real> a, Symmetric<Real> b) {
    return {a.xx - b.xx, a.xy - b.xy, a.yy - b.yy};
}
template <class Real> INLINE Two<Real> operator*(Symmetric<Real> a, Two<Real> b) {
    return {a.xx * b.x + a.xy * b.y, a.xy * b.x + a.yy * b.y};
}
template <class Real> INLINE Symmetric<Real> inverse(Symmetric<Real> a) {
    const Real scale = 1.0 / (a.xx * a.yy - a.xy * a.xy);
    return {a.yy * scale, -(a.xy * scale), a.xx * scale};
}

// (-sin, cos) of an angle: angle - n pi is in [-pi/2, pi/2] with pi in two parts (Cody-Waite, exact for n < 2^24); the
// polynomials interpolate (sin x - x) / x^3 and (cos x - 1 + x^2 / 2) / x^4 at Chebyshev points of x^2, errors below 1e-16.
template <class Real> INLINE Two<Real> normal_of(Real angle) {
    constexpr double PI_HIGH = 0x1.921fb54p+1, PI_LOW = 1.984187159361081e-09, ROUND = 0x1.8p52;
    const Real rounded = angle * 0.31830988618379067154 + ROUND;
    const Real n = rounded - ROUND;
    const Real r = (angle - n * PI_HIGH) - n * PI_LOW;
    const Real z = r * r;
    Real s = z * 2.73142898612261580e-15 + -7.64396903105276896e-13;
    s = s * z + 1.60589772728155056e-10;
    s = s * z + -2.50521076163845945e-08;
    s = s * z + 2.75573192191584315e-06;
    s = s * z + -1.98412698412549552e-04;
    s = s * z + 8.33333333333331587e-03;
    s = s * z + -1.66666666666666657e-01;
    Real c = z * 4.64640971522779029e-14 + -1.14662504785367446e-11;
    c = c * z + 2.08766815139071841e-09;
    c = c * z + -2.75573185728483154e-07;
    c = c * z + 2.48015872989108875e-05;
    c = c * z + -1.38888888888847629e-03;
    c = c * z + 4.16666666666666574e-02;
    c = c * z + -0.5;
    return {flip_if_odd(-r - (r * z) * s, rounded), flip_if_odd(c * z + 1.0, rounded)};
}

// Constants of a design, for crank, coupler and rocker.
template <class Real> struct Bars {
    Real half[3];
    Real lightness[3]; // 1 / mass
    Real lever[3];     // half / inertia, negative for the rocker, whose frame points against the loop
    Real turning[3];   // half^2 / inertia
};

INLINE Bars<Vector> bars_of(const Vector *lengths) {
    Bars<Vector> bars;
    for (int i = 0; i < 3; i++) {
        const Vector mass = lengths[i], inertia = mass * lengths[i] * lengths[i] / 12.0;
        bars.half[i] = lengths[i] / 2.0;
        bars.lightness[i] = 1.0 / mass;
        bars.lever[i] = bars.half[i] / inertia * (i == 2 ? -1.0 : 1.0);
        bars.turning[i] = bars.half[i] * bars.half[i] / inertia;
    }
    return bars;
}

// An eliminated block: pivot^-1 side, by columns; pivot^-1 right; and their contributions to the next block.
template <class Real> struct Elimination {
    Two<Real> first, second, solved;
    Symmetric<Real> update;
    Two<Real> shift;

    INLINE_MEMBER Elimination(Symmetric<Real> pivot, Symmetric<Real> side, Two<Real> right) {
        const Symmetric<Real> inverted = inverse(pivot);
        const Two<Real> column_x = {side.xx, side.xy}, column_y = {side.xy, side.yy};
        first = inverted * column_x, second = inverted * column_y, solved = inverted * right;
        update = {dot(column_x, first), dot(column_y, first), dot(column_y, second)};
        shift = side * solved;
    }
    INLINE_MEMBER Two<Real> back(Two<Real> next) const { return solved - next.x * first - next.y * second; }
};

// Accelerations of a system in the order x, y, phi of crank, coupler, rocker.
template <class Real> INLINE void accelerate(const Bars<Real> &bars, const Real *angle, const Real *rate, Real *a) {
    Two<Real> normal[3], bend[3];      // (-sin, cos), and u times the squared rate
    Symmetric<Real> same[3], other[3]; // w w^T / J + 1 / m and w w^T / J - 1 / m, the blocks of S
    for (int i = 0; i < 3; i++) {
        const Two<Real> n = normal[i] = normal_of(angle[i]);
        const Real pull = bars.half[i] * (rate[i] * rate[i]);
        bend[i] = {pull * n.y, -(pull * n.x)};
        const Real across = bars.turning[i] * n.x, xx = across * n.x, xy = across * n.y, yy = bars.turning[i] - xx;
        same[i] = {xx + bars.lightness[i], xy, yy + bars.lightness[i]};
        other[i] = {xx - bars.lightness[i], xy, yy - bars.lightness[i]};
    }
    const Two<Real> right_o = {-bend[0].x, GRAVITY - bend[0].y}, right_c = {bend[2].x, bend[2].y - GRAVITY};
    const Elimination<Real> o(same[0], other[0], right_o), c(same[2], other[2], right_c);
    const Elimination<Real> m(same[0] + same[1] - o.update, other[1], Two<Real>{-(bend[0].x + bend[1].x) - o.shift.x, -(bend[0].y + bend[1].y) - o.shift.y});
    const Two<Real> right_b = bend[2] - bend[1] - c.shift - m.shift;
    const Two<Real> at_b = inverse(same[1] + same[2] - c.update - m.update) * right_b;
    const Two<Real> at_a = m.back(at_b), at_o = o.back(at_a), at_c = c.back(at_b);

    const Two<Real> start[3] = {at_o, at_a, at_b}, end[3] = {at_a, at_b, at_c};
    for (int i = 0; i < 3; i++) {
        const Two<Real> force = start[i] - end[i], couple = start[i] + end[i];
        a[3 * i] = bars.lightness[i] * force.x;
        a[3 * i + 1] = bars.lightness[i] * force.y - GRAVITY;
        a[3 * i + 2] = -(bars.lever[i] * dot(normal[i], couple));
    }
}

// One step of the classical Runge-Kutta method, for second-order equations.
template <class Real> INLINE void step(const Bars<Real> &bars, double h, Real *q, Real *v) {
    Real angle[3], rate[3], a[9], sum_q[9], sum_v[9];
    for (int i = 0; i < 3; i++) angle[i] = q[3 * i + 2], rate[i] = v[3 * i + 2];
    accelerate(bars, angle, rate, a);
    for (int k = 0; k < 9; k++) sum_q[k] = sum_v[k] = a[k];

    Real half_way[3];
    for (int i = 0; i < 3; i++) {
        half_way[i] = angle[i] = q[3 * i + 2] + v[3 * i + 2] * (h / 2);
        rate[i] = v[3 * i + 2] + a[3 * i + 2] * (h / 2);
    }
    Real first[3];
    for (int i = 0; i < 3; i++) first[i] = a[3 * i + 2];
    accelerate(bars, angle, rate, a);
    for (int k = 0; k < 9; k++) sum_q[k] = sum_q[k] + a[k], sum_v[k] = sum_v[k] + a[k] * 2.0;

    Real second[3];
    for (int i = 0; i < 3; i++) {
        second[i] = a[3 * i + 2];
        angle[i] = half_way[i] + first[i] * (h * h / 4);
        rate[i] = v[3 * i + 2] + a[3 * i + 2] * (h / 2);
    }
    accelerate(bars, angle, rate, a);
    for (int k = 0; k < 9; k++) sum_q[k] = sum_q[k] + a[k], sum_v[k] = sum_v[k] + a[k] * 2.0;

    for (int i = 0; i < 3; i++) {
        angle[i] = q[3 * i + 2] + v[3 * i + 2] * h + second[i] * (h * h / 2);
        rate[i] = v[3 * i + 2] + a[3 * i + 2] * h;
    }
    accelerate(bars, angle, rate, a);
    for (int k = 0; k < 9; k++) {
        q[k] = q[k] + v[k] * h + sum_q[k] * (h * h / 6);
        v[k] = v[k] + (sum_v[k] + a[k]) * (h / 6);
    }
}

// Lanes from `rows` rows of a (rows, batch) array; lanes past its end repeat the last system.
INLINE void load(const double *from, long batch, long start, int rows, Vector *to) {
    for (int k = 0; k < rows; k++)
        for (int lane = 0; lane < LANES; lane++) to[k][lane] = from[k * batch + std::min(start + lane, batch - 1)];
}
INLINE void store(const Vector *from, long batch, long start, int rows, double *to) {
    for (int k = 0; k < rows; k++)
        for (int lane = 0; lane < LANES && start + lane < batch; lane++) to[k * batch + start + lane] = from[k][lane];
}

} // namespace

// Steps of a batch: lengths (4, batch) of crank, coupler, rocker, ground; q and v (9, batch), changed in place.
extern "C" void rollout(long batch, long steps, double h, const double *lengths, double *q, double *v) {
    for (long start = 0; start < batch; start += LANES) {
        Vector bar[3], position[9], velocity[9];
        load(lengths, batch, start, 3, bar);
        load(q, batch, start, 9, position);
        load(v, batch, start, 9, velocity);
        const Bars<Vector> bars = bars_of(bar);
        for (long k = 0; k < steps; k++) step(bars, h, position, velocity);
        store(position, batch, start, 9, q);
        store(velocity, batch, start, 9, v);
    }
}

// Scalar operations of one evaluation of the accelerations, a multiplication that is fused with an addition counted as two.
extern "C" long operations_per_evaluation() {
    Counter angle[3], rate[3], a[9];
    Counter::operations = 0;
    accelerate(Bars<Counter>(), angle, rate, a);
    return Counter::operations;
}

// Scalar operations of one step.
extern "C" long operations_per_step() {
    Counter q[9], v[9];
    Counter::operations = 0;
    step(Bars<Counter>(), 1e-3, q, v);
    return Counter::operations;
}
