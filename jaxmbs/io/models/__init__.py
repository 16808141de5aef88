"""Models of mechanisms as files: the JSON format of jaxmbs, MJCF, URDF, SDF."""

from jaxmbs.io.models.front import load as load
from jaxmbs.io.models.front import save as save
from jaxmbs.io.models.json_format.schema import schema as schema
from jaxmbs.io.models.model import Model as Model
from jaxmbs.io.models.model import ModelError as ModelError
