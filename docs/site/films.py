"""The moving pictures at the top of the first page: `python docs/site/films.py [FOLDER]`, by default docs/images.

They are stored, because their simulations take too long for every build of the site.
"""

import runpy
import sys
from pathlib import Path

import jax
import numpy as np
from PIL import Image

import jaxmbs as mbs
from jaxmbs.env.jansen_leg import GUESSES
from jaxmbs.viz.dimension import kit, scene_of

jax.config.update("jax_enable_x64", True)

# Folder of the repository.
ROOT = Path(__file__).parents[2]
# Frames of each film.
FRAMES = 60
# Frames per second.
PER_SECOND = 20
# Width of each film before it is cropped (in, at 80 pixels per inch).
WIDTHS = {"film_jansen": 3.8, "film_six_bar": 3.6, "film_bricard": 6.0}
# Width and height of a film (pixels).
SIDE = 288
# Number of colours of a film.
COLOURS = 40


def example(name: str) -> dict:
    """Return the names that an example defines."""
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


def six_bar():
    """Return the six-bar whose lever rests, one turn of its crank, and its coupler point."""
    given = example("10_six_bar")
    mech = given["six_bar"]()
    motor = {"motor": mbs.planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))}
    mech = mbs.Mechanism(mech.bodies, mech.constraints, motor)
    turn = np.linspace(0, 2 * np.pi, FRAMES, endpoint=False)
    return mech, mbs.kinematics(mech, turn, given["GUESS"], throw=True), [("coupler", given["POINT"])]


def jansen_leg():
    """Return Jansen's leg, one turn of its crank, and its foot."""
    leg = mbs.env.JansenLeg()
    design = leg.design
    mech = leg.build(design, np.zeros(1))
    motor = {"motor": mbs.planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))}
    mech = mbs.Mechanism(mech.bodies, mech.constraints, motor)
    guess = {"crank.phi": 0.0, "upper": (-design["a"], -design["l"], GUESSES[0, 0]), "lower": GUESSES[0, 1:]}
    turn = np.linspace(0, 2 * np.pi, FRAMES, endpoint=False)
    points = [("lower", leg.foot(design))]
    return mech, mbs.kinematics(mech, turn, guess, throw=True), points


def bricard():
    """Return Bricard's mechanism, its swing to the other side and back, and the middle hinge."""
    mech, start = example("06_bricard")["bricard"]()
    times = np.linspace(0, 5, 501)
    run = mbs.simulate(mech, times, start, step=4e-3, throw=True)
    kinetic = np.asarray(run.energy.kinetic)
    # The mechanism has one degree of freedom and starts at rest: it goes back the same way from where it rests again.
    rests = [k for k in range(1, len(times) - 1) if kinetic[k] <= kinetic[[k - 1, k + 1]].min()]
    rest = next(k for k in rests if kinetic[k] < 1e-3 * kinetic.max())
    rows = np.linspace(0, rest, FRAMES // 2).round().astype(int)
    rows = np.concatenate([rows, rows[-2:0:-1]])
    return mech, jax.tree.map(lambda x: x[rows], run), [("rod 2", (0.5, 0, 0))]


# Elevation and azimuth of the camera of spatial films (degrees).
VIEW = {"film_bricard": (18, -60)}
# The films by the names of their files.
FILMS = {"film_jansen": jansen_leg, "film_six_bar": six_bar, "film_bricard": bricard}


def write(name: str, folder: Path) -> None:
    """Write a film as a GIF with one palette."""
    mech, motion, points = FILMS[name]()
    scene = scene_of(mech, np.asarray(motion.q), 0.0, marked=points, size=1.2, view=VIEW.get(name))
    curves = [(body, closed_curve(motion, body, point)) for body, point in points]
    film = kit(mech.layout).Film(scene, curves, WIDTHS[name], None)
    film.ax.set_axis_off()
    pictures = squares(np.stack([frame[..., :3].copy() for frame in film]))
    # The colours of four frames at once, with exact white.
    sample = Image.fromarray(np.vstack(pictures[:: FRAMES // 4]))
    colours = np.array(sample.quantize(COLOURS).getpalette()[: 3 * COLOURS]).reshape(-1, 3)
    colours[colours.sum(axis=1).argmax()] = 255
    used, where = np.unique(pictures.reshape(-1, 3).astype(int), axis=0, return_inverse=True)
    nearest = np.argmin(((used[:, None] - colours) ** 2).sum(-1), axis=1).astype(np.uint8)
    frames = [Image.fromarray(picture) for picture in nearest[where].reshape(pictures.shape[:3])]
    for frame in frames:
        frame.putpalette(colours.astype(np.uint8).tobytes())
    path = folder / f"{name}.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=1000 // PER_SECOND, loop=0)
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB, {frames[0].size}")


def squares(frames: np.ndarray) -> np.ndarray:
    """Return the frames (F, height, width, 3) as squares with a width of `SIDE`, the moving picture in their middle."""
    drawn = (frames < 255).any(axis=(0, 3))
    rows, columns = (np.flatnonzero(drawn.any(axis=axis)) for axis in (1, 0))
    content = frames[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    room = np.array([SIDE, SIDE]) - content.shape[1:3]
    assert (room >= 0).all(), f"the drawing has {content.shape[1:3]} pixels: take a smaller width"
    before = room // 2
    return np.pad(content, [(0, 0), *zip(before, room - before, strict=True), (0, 0)], constant_values=255)


def closed_curve(motion, body: str, point) -> np.ndarray:
    """Return the path of a point through all frames and back to the first one."""
    path = np.asarray(motion.point(body, point))
    return np.vstack([path, path[:1]])


def main():
    """Write all films."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILMS:
        write(name, folder)


if __name__ == "__main__":
    main()
