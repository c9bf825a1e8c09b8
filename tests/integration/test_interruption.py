"""Ctrl-C at the front door: it is back at once, says how to come back, and what was begun goes on without it."""

import json
import signal
import subprocess
import sys

import pytest

from blackstart.paths import ROOT
from tests.waiting import DEADLINE_S, wait_for


@pytest.fixture
def inventory(tmp_path):
    path = tmp_path / "inventory"
    path.mkdir()
    here = {"local": True, "python": sys.executable}
    (path / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"here": here}}}))
    return path


@pytest.mark.parametrize("as_json", [False, True])
def test_whoever_leaves_a_command_is_not_kept_until_it_ends(tmp_path, inventory, as_json):
    script = f"touch {tmp_path}/begun; until [ -e {tmp_path}/gate ]; do sleep 0.05; done; touch {tmp_path}/ended"
    argv = [*(["--json"] if as_json else []), "-i", str(inventory), "--", "sh", "-c", script]
    process = subprocess.Popen(
        [sys.executable, "-m", "invoke", "exec", *argv],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for((tmp_path / "begun").exists, "the command")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        (tmp_path / "gate").touch()
    assert process.returncode == 130
    said = json.loads(out)["error"]["remedy"] if as_json else err
    assert f"to come back: inv exec {'--json ' if as_json else ''}-i {inventory} -- sh -c " in said
    assert "Traceback" not in out + err
    wait_for((tmp_path / "ended").exists, "the command goes on to its end")
