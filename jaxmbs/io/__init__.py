"""Files: models of mechanisms (`models`), results of synthesis (`results`), curves (`outlines`), and trajectories."""

from jaxmbs.io.c_code import export_c as export_c
from jaxmbs.io.fmu import export_fmu as export_fmu
from jaxmbs.io.html_page import export_html as export_html
from jaxmbs.io.models import Model as Model
from jaxmbs.io.models import ModelError as ModelError
from jaxmbs.io.models import load as load
from jaxmbs.io.models import save as save
from jaxmbs.io.models import schema as schema
from jaxmbs.io.outlines import read_curve as read_curve
from jaxmbs.io.results import export as export
from jaxmbs.io.results import read_solution as read_solution
from jaxmbs.io.results import solids as solids
from jaxmbs.io.trajectories import load_trajectory as load_trajectory
