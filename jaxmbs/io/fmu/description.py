"""modelDescription.xml and the other texts of an FMU that depend on the mechanism."""

from __future__ import annotations

import json
from typing import NamedTuple
from xml.etree import ElementTree

from jaxmbs.io.fmu.variables import KnownVariables, Variable
from jaxmbs.numerics.results import Status
from jaxmbs.programs import number_in_c

# Attributes of `BaseUnit` for each unit: exponents of SI units, and a factor.
UNITS = {
    "s": {"s": "1"},
    "rad": {"rad": "1"},
    **{
        unit: {"m": "1", "factor": factor}
        for unit, factor in (("m", "1"), ("cm", "0.01"), ("mm", "0.001"), ("in", "0.0254"), ("ft", "0.3048"))
    },
}
# Names of capabilities by version: states can be copied, copies can be written as bytes, there are directional derivatives.
CAPABILITIES = {
    "2.0": ("canGetAndSetFMUstate", "canSerializeFMUstate", "providesDirectionalDerivative"),
    "3.0": ("canGetAndSetFMUState", "canSerializeFMUState", "providesDirectionalDerivatives"),
}


class Description(NamedTuple):
    """The contents of modelDescription.xml and model.h.

    Attributes:
        name: identifier of the model.
        version: of FMI, "2.0" or "3.0".
        tool: name and version of the program that wrote the FMU.
        sources: names of the C files that are compiled.
        parts: variables that the functions read.
        unknown: variables that they compute: derivatives, outputs.
        step: largest step.
        scales: number of scales.
        carry: size of the memory of the integrator.
    """

    name: str
    version: str
    tool: str
    sources: tuple[str, ...]
    parts: KnownVariables
    unknown: tuple[Variable, ...]
    step: float
    scales: int
    carry: int

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables; a value reference is an index of these."""
        return self.parts.all + self.unknown

    def header(self, token: str) -> str:
        """Return the text of model.h."""
        variables, known = self.variables, len(self.parts.all)
        first_state = known - len(self.parts.states)
        first_force = first_state - len(self.parts.forces)
        starts = ", ".join(number_in_c(x.start or 0.0, "f") for x in variables[:first_state])
        numbers = {
            "VARIABLES": len(variables), "KNOWN": known, "FIRST_INPUT": first_force - len(self.parts.motions),
            "FIRST_FORCE": first_force, "FIRST_STATE": first_state, "STATES": len(self.parts.states),
            "SCALES": self.scales, "CARRY": self.carry, "STATUSES": len(Status), "STEP": self.step,
        }  # fmt: skip
        return "\n".join([
            "/* Names and numbers of the model; see instance.h. */",
            f"#define MODEL_NAME {_quoted(self.name)}", f"#define TOKEN {_quoted(token)}",
            *(f"#define {name} {value!r}" for name, value in numbers.items()),
            f"static const double START_VALUES[FIRST_STATE] = {{{starts}}};",
            f"static const char *const STATUS_NAMES[STATUSES] = {{{', '.join(_quoted(s.name) for s in Status)}}};",
            "static const char *const NAMES[VARIABLES] = {", *(f"    {_quoted(x.name)}," for x in variables), "};", "",
        ])  # fmt: skip

    def xml(self, token: str) -> bytes:
        """Return modelDescription.xml."""
        new = self.version == "3.0"
        root = ElementTree.Element("fmiModelDescription", {
            "fmiVersion": self.version, "modelName": self.name, "instantiationToken" if new else "guid": token,
            "generationTool": self.tool, "variableNamingConvention": "flat",
        })  # fmt: skip
        if not new:
            root.set("numberOfEventIndicators", "0")
        for kind in ("ModelExchange", "CoSimulation"):
            self._add_interface(root, kind)
        units = ElementTree.SubElement(root, "UnitDefinitions")
        for unit in dict.fromkeys(x.unit for x in self.variables if x.unit):
            base, _, per = unit.partition("/")
            exponents = UNITS[base] | ({"s": {"s": "-1", "s2": "-2"}[per]} if per else {})
            ElementTree.SubElement(ElementTree.SubElement(units, "Unit", name=unit), "BaseUnit", exponents)
        categories = ElementTree.SubElement(root, "LogCategories")
        ElementTree.SubElement(categories, "Category", name="logStatusError", description="errors")
        ElementTree.SubElement(root, "DefaultExperiment", startTime="0", stepSize=repr(self.step))
        variables = ElementTree.SubElement(root, "ModelVariables")
        place = {x.name: k for k, x in enumerate(self.variables)}
        for reference, variable in enumerate(self.variables):
            (_variable_3 if new else _variable_2)(variables, variable, reference, place)
        self._add_structure(root)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)

    def _add_interface(self, root: ElementTree.Element, kind: str) -> None:
        """Add the element of model exchange or co-simulation."""
        own = dict.fromkeys(CAPABILITIES[self.version], "true")
        element = ElementTree.SubElement(root, kind, {"modelIdentifier": self.name, **own})
        if kind == "CoSimulation":
            element.set("canHandleVariableCommunicationStepSize", "true")
        if self.version == "2.0":
            element.set("canNotUseMemoryManagementFunctions", "true")
            files = ElementTree.SubElement(element, "SourceFiles")
            for source in self.sources:
                ElementTree.SubElement(files, "File", name=source)

    def _add_structure(self, root: ElementTree.Element) -> None:
        """Add the lists of outputs, derivatives of states, and unknowns of the initialisation."""
        structure = ElementTree.SubElement(root, "ModelStructure")
        known, states = len(self.parts.all), len(self.parts.states)
        derivatives, outputs = range(known, known + states), range(known + states, len(self.variables))
        initial = (*range(known - states, known), *derivatives, *outputs)
        if self.version == "3.0":
            for name, references in (
                ("Output", outputs),
                ("ContinuousStateDerivative", derivatives),
                ("InitialUnknown", initial),
            ):
                for reference in references:
                    ElementTree.SubElement(structure, name, valueReference=str(reference))
            return
        for name, references in (("Outputs", outputs), ("Derivatives", derivatives), ("InitialUnknowns", initial)):
            group = ElementTree.SubElement(structure, name)
            for reference in references:
                ElementTree.SubElement(group, "Unknown", index=str(reference + 1))

    def build_file(self) -> bytes:
        """Return sources/buildDescription.xml of FMI 3.0."""
        root = ElementTree.Element("fmiBuildDescription", fmiVersion="3.0")
        configuration = ElementTree.SubElement(root, "BuildConfiguration", modelIdentifier=self.name)
        files = ElementTree.SubElement(configuration, "SourceFileSet", language="C99")
        for source in self.sources:
            ElementTree.SubElement(files, "SourceFile", name=source)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)


def _attributes(variable: Variable, reference: int) -> dict[str, str]:
    """Return the attributes of a variable that are the same in all versions, without its number."""
    calculated = variable.causality in ("local", "output")
    found = {"name": variable.name, "valueReference": str(reference), "causality": variable.causality}
    found["variability"] = "fixed" if variable.causality == "parameter" else "continuous"
    if calculated or variable.causality == "parameter":
        found["initial"] = "calculated" if calculated else "exact"
    return found | ({"description": variable.about} if variable.about else {})


def _numbers(variable: Variable) -> dict[str, str]:
    """Return unit and start value of a variable."""
    found = {"unit": variable.unit} if variable.unit else {}
    return found if variable.start is None else found | {"start": repr(variable.start)}


def _variable_2(parent: ElementTree.Element, variable: Variable, reference: int, place: dict[str, int]) -> None:
    """Add a variable of FMI 2.0."""
    element = ElementTree.SubElement(parent, "ScalarVariable", _attributes(variable, reference))
    number = ElementTree.SubElement(element, "Real", _numbers(variable))
    if variable.rate_of:
        number.set("derivative", str(place[variable.rate_of] + 1))


def _variable_3(parent: ElementTree.Element, variable: Variable, reference: int, place: dict[str, int]) -> None:
    """Add a variable of FMI 3.0."""
    element = ElementTree.SubElement(parent, "Float64", _attributes(variable, reference) | _numbers(variable))
    if variable.rate_of:
        element.set("derivative", str(place[variable.rate_of]))


def _quoted(text: str) -> str:
    """Return a text as a string of C."""
    return json.dumps(text, ensure_ascii=False)
