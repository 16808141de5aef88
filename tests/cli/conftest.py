"""Commands, run in the process of the tests."""

import json

import pytest

from jaxmbs.cli import main


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Runs a command in an empty folder: exit code, what JSON it printed, what it complained about."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = main([str(word) for word in (*words, "--json")])
        out, err = capsys.readouterr()
        return code, json.loads(out), err

    return run
