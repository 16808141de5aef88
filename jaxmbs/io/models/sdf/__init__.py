"""SDF, the format of Gazebo: `read` has bodies and gravity, `poses` the frames, `joints` joints and loops."""

from jaxmbs.io.models.sdf.read import read_sdf as read_sdf
