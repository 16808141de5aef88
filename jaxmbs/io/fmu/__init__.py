"""Mechanisms as FMUs, which system simulators import."""

from jaxmbs.io.fmu.export import export_fmu as export_fmu
