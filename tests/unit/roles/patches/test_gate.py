"""The gate before each start: it lets through what was decided for these very files, and nothing else."""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roles.patches import gate


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    (site / "sglang-0.5.9.dist-info").mkdir(parents=True)
    (site / ".blackstart-patches").mkdir()
    (site / "a.py").write_text("patched\n")
    return site


def record(site: Path, **over: Any) -> None:
    digest = hashlib.sha256(b"patched\n").hexdigest()
    patch = {"package": "sglang", "release": "0.5.9", "state": "applied", "files": {"a.py": digest}, **over}
    (site / gate.GATE_FILE).write_text(json.dumps({"format": 1, "patches": {"one": patch}}))


def run(site: Path, *names: str) -> tuple[int, str]:
    program = [sys.executable, "-IS", gate.__file__, str(site.parents[1] / "python3*" / "site-packages"), "inv mend"]
    ran = subprocess.run([*program, *names], capture_output=True, text=True)
    return ran.returncode, ran.stderr


def test_an_applied_patch_in_its_files_is_let_through(site: Path) -> None:
    record(site)
    assert run(site, "one") == (0, "")


@pytest.mark.parametrize("state", ["upstream", "not-applicable"])
def test_a_release_that_needs_no_patch_is_let_through(site: Path, state: str) -> None:
    record(site, state=state, files={})
    assert run(site, "one") == (0, "")


@pytest.mark.parametrize("state", ["needed", "drifted"])
def test_a_patch_that_is_not_there_stops_the_start(site: Path, state: str) -> None:
    record(site, state=state, files={})
    code, said = run(site, "one")
    assert code == 1
    assert f"patch one is {state}; mend it with: inv mend" in said


def test_a_reinstall_of_the_same_release_is_seen(site: Path) -> None:
    record(site)
    (site / "a.py").write_text("stock\n")
    code, said = run(site, "one")
    assert code == 1
    assert "a.py is not as it was left" in said


def test_a_file_that_is_gone_is_seen(site: Path) -> None:
    record(site)
    (site / "a.py").unlink()
    assert run(site, "one")[0] == 1


def test_another_release_was_never_decided(site: Path) -> None:
    record(site, state="upstream", files={})
    (site / "sglang-0.5.9.dist-info").rename(site / "sglang-0.5.10.dist-info")
    code, said = run(site, "one")
    assert code == 1
    assert "0.5.9, which is not what is installed" in said


def test_without_a_record_nothing_is_let_through(site: Path) -> None:
    code, said = run(site, "one", "two")
    assert code == 1
    assert said.count("never looked at") == 2


def test_it_runs_on_the_oldest_python_that_machines_have() -> None:
    tree = ast.parse(Path(gate.__file__).read_text(), feature_version=(3, 8))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert imported <= {"glob", "hashlib", "json", "os", "sys"}
