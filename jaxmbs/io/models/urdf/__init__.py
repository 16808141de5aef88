"""URDF, the robot description format of ROS: `read` has the tree, `parts` inertias and joints, `loops` loops; `write`."""

from jaxmbs.io.models.urdf.read import read_urdf as read_urdf
from jaxmbs.io.models.urdf.write import write_urdf as write_urdf
