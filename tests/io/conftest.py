"""The published schema of model files."""

import json
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def validator():
    published = json.loads((ROOT / "docs" / "model.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(published)
    return jsonschema.Draft202012Validator(published)
