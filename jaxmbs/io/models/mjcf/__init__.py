"""Reading and writing of MJCF, the format of MuJoCo."""

from jaxmbs.io.models.mjcf.read import read_mjcf as read_mjcf
from jaxmbs.io.models.mjcf.write import write_mjcf as write_mjcf
