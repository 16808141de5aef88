"""The settings of the tests: a run without time for all of them fails, and shares of the tests make up the whole."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


def test_what_there_is_no_time_for_fails():
    test = "tests/project/test_campaign.py::test_names_are_unique"
    script = f"import os, sys, pytest; os.environ['JAXMBS_TEST_SECONDS'] = '0'; sys.exit(pytest.main(['{test}']))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stdout
    assert "not run: the 0 s for this step are over" in done.stdout


@pytest.mark.parametrize("shares", [1, 2, 3])
def test_shares_of_the_tests_make_up_the_whole(shares, monkeypatch, request):
    settings = request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
    items = [SimpleNamespace(path=f"file {k // 3}", name=str(k)) for k in range(21)]
    left_out, parts = [], []
    hook = SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))
    for share in range(shares):
        monkeypatch.setenv("JAXMBS_TEST_SHARE", f"{share}/{shares}")
        part = items.copy()
        settings.pytest_collection_modifyitems(SimpleNamespace(hook=hook), part)
        parts += part
        assert abs(len(part) - len(items) / shares) < 1
    assert sorted(item.name for item in parts) == sorted(item.name for item in items)
    assert len(left_out) == (shares - 1) * len(items)
