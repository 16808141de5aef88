"""Identification: parameters of a mechanism from measurements of its motion."""

from jaxmbs.identification.identify import Identified as Identified
from jaxmbs.identification.identify import identify as identify
from jaxmbs.identification.records import Record as Record
from jaxmbs.identification.statistics import Tests as Tests
