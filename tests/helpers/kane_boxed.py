"""Boxed results of Kamman's notes: moments of joints by the multipliers of the angles that they hold."""

# Typed from the notes: for each joint the angles that it holds, and the components of its moment in the frames of J and
# of K as functions of S, C (sines and cosines of θ₁ θ₂ θ₃) and the multipliers λ of the held angles, with the held
# angles at zero.
BOXED = {
    "universal, 1 held (45) (47) (48)": (
        (1,),
        lambda S, C, a: (a, 0, -(S[2] / C[2]) * a),
        lambda S, C, a: (C[3] / C[2] * a, -S[3] / C[2] * a, 0),
    ),
    "universal, 2 held (54) (56) (57)": (
        (2,),
        lambda S, C, a: (0, C[1] * a, S[1] * a),
        lambda S, C, a: (S[3] * a, C[3] * a, 0),
    ),
    "universal, 3 held (59) (60) (62)": (
        (3,),
        lambda S, C, a: (0, -S[1] / C[2] * a, C[1] / C[2] * a),
        lambda S, C, a: (-(S[2] / C[2]) * a, 0, a),
    ),
    "hinge, 2 and 3 held (65) (68)": (
        (2, 3),
        lambda S, C, a, b: (0, C[1] * a - S[1] * b, S[1] * a + C[1] * b),
        lambda S, C, a, b: (0, a, b),
    ),
    "hinge, 1 and 3 held (70) (72)": (
        (1, 3),
        lambda S, C, a, b: (a, 0, (b - S[2] * a) / C[2]),
        lambda S, C, a, b: ((a - S[2] * b) / C[2], 0, b),
    ),
    "hinge, 1 and 2 held (73) (75)": (
        (1, 2),
        lambda S, C, a, b: (a, b, 0),
        lambda S, C, a, b: (C[3] * a + S[3] * b, -S[3] * a + C[3] * b, 0),
    ),
    "prismatic": ((1, 2, 3), lambda S, C, a, b, c: (a, b, c), lambda S, C, a, b, c: (a, b, c)),
    "spherical": ((), lambda S, C: (0, 0, 0), lambda S, C: (0, 0, 0)),
}


# "The components of the constraint moments are as described above for a hinge joint about the n_J1 direction."
BOXED["cylindrical"] = BOXED["hinge, 2 and 3 held (65) (68)"]


# Translations that joints hold, all three for those not listed; forces are λ themselves, (34) and (41).
HELD_SLIDES = {"prismatic": (2, 3), "cylindrical": (2, 3)}
