"""Reading and writing of MJCF, the format of MuJoCo.

In the functions that read it `mujoco` is the package, which is imported when a file is read, `m` an `MjModel`, and `d` its
`MjData` at the start.
"""

from jaxmbs.io.models.mjcf.read import read_mjcf as read_mjcf
from jaxmbs.io.models.mjcf.write import write_mjcf as write_mjcf
