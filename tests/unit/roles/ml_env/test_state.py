import hashlib
import os
import subprocess

import pytest

from blackstart.errors import InputError
from blackstart.machine import Machine, Value
from blackstart.paths import ROLES
from blackstart.variables import read_defaults, resolve
from roles.ml_env import lock as locks
from roles.ml_env import state as ml_env
from roles.ml_env.state import Variables

UV_HASH = "b" * 64
LOCK = f"thing==1.0 --hash=sha256:{'a' * 64}\n"


@pytest.fixture(autouse=True)
def locks_folder(tmp_path, monkeypatch):
    folder = tmp_path / "locks"
    folder.mkdir()
    (folder / "engine.txt").write_text(LOCK)
    (folder / "uv.txt").write_text(f"uv==0.13.9 --hash=sha256:{UV_HASH}\n")
    read = locks.read
    monkeypatch.setattr(locks, "read", lambda name: read(name, folder))
    return folder


def variables(**given):
    values = {"ml_env_lock": "engine", **given}
    machine = Machine("glm5", ("all",), {name: Value(value, "here") for name, value in values.items()}, "here")
    return resolve(machine, read_defaults(ROLES), Variables)


IDENTITY = "engine-" + hashlib.sha256(LOCK.encode()).hexdigest()[:12]


def test_an_environment_is_named_by_its_lock_so_that_another_lock_builds_beside_it(locks_folder):
    assert variables().environment() == f"/opt/ml-envs/{IDENTITY}"
    (locks_folder / "engine.txt").write_text(LOCK + "# newer\n")
    assert variables().environment() != f"/opt/ml-envs/{IDENTITY}"


def test_the_state_in_order():
    kinds = [resource.kind for resource in ml_env.state(variables(), []).resources]
    assert kinds == ["directory", "archive", "directory", "file", "file", "job", "link"]


def test_uv_comes_from_the_wheelhouse_with_a_hash_of_its_lock():
    _, archive, *_ = ml_env.state(variables(), []).resources
    assert archive.spec["path"] == "/opt/blackstart/uv-0.13.9"
    assert archive.spec["source"] == "/srv/wheelhouse/uv-0.13.9-*.whl"
    assert archive.spec["sha256"] == [UV_HASH]


def test_the_link_names_the_environment_last_so_that_it_never_names_half_of_one():
    *_, build, link = ml_env.state(variables(), []).resources
    assert build.spec["creates"] == f"/opt/ml-envs/{IDENTITY}/.complete"
    assert build.spec["provides"] == [f"/opt/ml-envs/{IDENTITY}"]
    assert link.spec == {"path": "/root/ml-env", "target": f"/opt/ml-envs/{IDENTITY}"}


def script(state):
    (build,) = [resource for resource in state.resources if resource.name.endswith(".build.sh")]
    return build.spec["content"]


def uv(tmp_path, exit_code=0):
    """A uv that only writes down how it was called."""
    program = tmp_path / "uv"
    program.write_text(f'#!/bin/sh\nfor word; do printf "<%s>" "$word"; done >>{tmp_path}/called\nexit {exit_code}\n')
    program.chmod(0o755)
    return program


def run_build(tmp_path, exit_code=0, **given):
    """The build script with its uv replaced by one that only writes down how it was called."""
    program = uv(tmp_path, exit_code)
    root = tmp_path / "envs"
    (root / IDENTITY).mkdir(parents=True)
    text = script(ml_env.state(variables(ml_env_root=str(root), **given), []))
    text = text.replace("/opt/blackstart/uv-0.13.9/uv-0.13.9.data/scripts/uv", str(program))
    ran = subprocess.run(["sh", "-e"], input=text, text=True, capture_output=True, env={"PATH": os.environ["PATH"]})
    return ran, (tmp_path / "called").read_text(), root / IDENTITY / ".complete"


def test_the_build_needs_no_network_and_only_what_the_lock_names(tmp_path):
    ran, called, marker = run_build(tmp_path, ml_env_wheelhouse="/srv/wheel house")
    assert ran.returncode == 0 and marker.exists()
    for word in ("<venv>", "<--clear>", "<pip>", "<sync>", "<--no-index>", "<--require-hashes>", "</srv/wheel house>"):
        assert word in called


def test_a_build_that_fails_leaves_no_marker(tmp_path):
    ran, _, marker = run_build(tmp_path, exit_code=3)
    assert ran.returncode == 3 and not marker.exists()


@pytest.mark.parametrize("wrong", [{"ml_env_lock": "none"}, {"ml_env_uv_lock": "none"}])
def test_an_unknown_lock_is_an_input_error(wrong):
    with pytest.raises(InputError, match="there is no lock 'none'"):
        ml_env.state(variables(**wrong), [])


@pytest.mark.parametrize("name", ["ml_env_root", "ml_env_link", "ml_env_wheelhouse", "ml_env_python"])
def test_paths_are_absolute(name):
    with pytest.raises(InputError):
        variables(**{name: "relative"})


def test_a_lock_of_something_else_is_none_of_uv():
    with pytest.raises(InputError, match="names no uv"):
        ml_env.state(variables(ml_env_uv_lock="engine"), [])
