"""The wheelhouse, filled by the real pip from a folder of wheels made here: no network."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from sandbox import wheelhouse
from sandbox.errors import SandboxError
from sandbox.wheelhouse import fill, parse_lock

LOCKS = Path(__file__).parents[3] / "inventory" / "locks"
A_HASH = "a" * 64


def make_wheel(folder: Path, name: str, version: str = "1.0") -> Path:
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", f"NAME = {name!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def lock_line(wheel: Path) -> str:
    name, version = wheel.name.split("-")[:2]
    return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


@pytest.fixture
def index(tmp_path, monkeypatch):
    folder = tmp_path / "index"
    folder.mkdir()
    for variable in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def lock(tmp_path, index):
    path = tmp_path / "two.txt"
    path.write_text("".join(lock_line(make_wheel(index, name)) for name in ("first", "second_one")))
    return path


@pytest.fixture
def no_process(monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError(f"a process was started: {args}")

    def forbid():
        monkeypatch.setattr(subprocess, "Popen", forbidden)

    return forbid


def names(wheels):
    return [wheel.name for wheel in wheels]


def test_fill_brings_every_wheel_and_says_so(lock, tmp_path):
    said = []
    wheels = fill([lock], tmp_path / "house", said.append)
    assert names(wheels) == ["first-1.0-py3-none-any.whl", "second_one-1.0-py3-none-any.whl"]
    assert all(wheel.is_file() for wheel in wheels)
    assert said[0] == "two.txt: 2 of 2 wheels to fetch"
    assert said[-1] == "two.txt: 2 wheels, verified"
    assert "wheel 2 of 2: second_one-1.0" in said


def test_a_second_fill_starts_no_process_and_says_nothing(lock, tmp_path, no_process):
    first = fill([lock], tmp_path / "house", print)
    no_process()
    said = []
    assert fill([lock], tmp_path / "house", said.append) == first
    assert said == []


def test_a_damaged_wheel_is_fetched_again(lock, tmp_path):
    wheels = fill([lock], tmp_path / "house", print)
    whole = wheels[0].read_bytes()
    wheels[0].write_bytes(whole[:50])
    said = []
    fill([lock], tmp_path / "house", said.append)
    assert wheels[0].read_bytes() == whole
    assert said[0] == "two.txt: 1 of 2 wheels to fetch"


def test_a_fill_that_was_killed_before_its_marker_fetches_only_what_is_missing(lock, tmp_path, index):
    house = tmp_path / "house"
    (house / ".incoming-left").mkdir(parents=True)
    (house / ".incoming-left" / "half.whl").write_bytes(b"half")
    (house / "first-1.0-py3-none-any.whl").write_bytes((index / "first-1.0-py3-none-any.whl").read_bytes())
    said = []
    fill([lock], house, said.append)
    assert said[0] == "two.txt: 1 of 2 wheels to fetch"
    assert not list(house.glob(".incoming-*"))


def test_wheels_that_are_all_there_need_no_pip(lock, tmp_path, no_process):
    house = tmp_path / "house"
    fill([lock], house, print)
    for marker in house.glob(".two-*.json"):
        marker.write_text("{ not json")
    no_process()
    assert len(fill([lock], house, print)) == 2


def test_a_changed_lock_is_filled_again(lock, tmp_path, index):
    house = tmp_path / "house"
    fill([lock], house, print)
    lock.write_text(lock.read_text() + lock_line(make_wheel(index, "third")))
    assert names(fill([lock], house, print))[-1] == "third-1.0-py3-none-any.whl"


def test_a_file_that_is_not_the_one_locked_is_refused_and_not_kept(tmp_path, index):
    make_wheel(index, "first")
    lock = tmp_path / "wrong.txt"
    lock.write_text(f"first==1.0 --hash=sha256:{A_HASH}\n")
    with pytest.raises(SandboxError, match="not the one locked") as refused:
        fill([lock], tmp_path / "house", print)
    assert "pip config list" in refused.value.remedy
    assert not list((tmp_path / "house").glob("**/*.whl"))


def test_a_package_that_the_index_lacks_is_named(tmp_path, index):
    lock = tmp_path / "absent.txt"
    lock.write_text(f"nowhere==1.0 --hash=sha256:{A_HASH}\n")
    with pytest.raises(SandboxError, match=r"nowhere==1\.0"):
        fill([lock], tmp_path / "house", print)


def test_a_python_without_pip_is_told_how_to_get_it(lock, tmp_path, monkeypatch):
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho 'python: No module named pip' >&2\nexit 1\n")
    bare.chmod(0o755)
    monkeypatch.setattr(wheelhouse.sys, "executable", str(bare))
    with pytest.raises(SandboxError, match="no pip") as refused:
        fill([lock], tmp_path / "house", print)
    assert refused.value.remedy == f"run: {bare} -m ensurepip"


def test_an_architecture_without_wheels_is_refused(lock, tmp_path, monkeypatch):
    monkeypatch.setattr(wheelhouse.platform, "machine", lambda: "riscv64")
    with pytest.raises(SandboxError, match="riscv64"):
        fill([lock], tmp_path / "house", print)


def test_a_lock_that_is_not_there_is_an_error_with_its_name(tmp_path):
    with pytest.raises(SandboxError, match=r"absent\.txt"):
        fill([tmp_path / "absent.txt"], tmp_path / "house", print)


@pytest.mark.parametrize(
    "line", ["first>=1.0", "first==1.0", f"./first.whl --hash=sha256:{A_HASH}", "first==1.0 --hash=md5:00"]
)
def test_a_line_that_pins_nothing_is_refused(line):
    with pytest.raises(SandboxError, match="not a package pinned"):
        parse_lock(line, "some.txt")


def test_an_empty_lock_is_refused():
    with pytest.raises(SandboxError, match="names no package"):
        parse_lock("# nothing\n", "some.txt")


def test_parse_lock_reads_names_markers_comments_and_every_hash():
    text = (
        f"Some.Name==1.0+cpu ; sys_platform == 'linux' \\\n    --hash=sha256:{A_HASH} \\\n"
        f"    --hash=sha256:{'b' * 64}\n    # via other\n"
    )
    (requirement,) = parse_lock(text, "some.txt")
    assert (requirement.name, requirement.version) == ("some-name", "1.0+cpu")
    assert requirement.sha256 == {A_HASH, "b" * 64}


def test_pip_platforms_prefer_the_guest_s_own_glibc():
    tags = wheelhouse.pip_platforms("x86_64")
    assert tags[0] == "manylinux_2_36_x86_64"
    assert {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "linux_x86_64"} <= set(tags)


@pytest.mark.parametrize("name", ["sglang-0.5.9-sandbox.txt", "uv.txt"])
def test_the_repository_s_locks_pin_everything_and_name_no_place(name):
    text = (LOCKS / name).read_text()
    assert parse_lock(text, name)
    assert "://" not in text and "--index" not in text and "--find-links" not in text


def test_the_sandbox_lock_holds_what_its_in_file_asks_for_and_no_gpu_package():
    locked = {requirement.name for requirement in parse_lock((LOCKS / "sglang-0.5.9-sandbox.txt").read_text(), "")}
    asked = {
        line.split("==")[0].strip()
        for line in (LOCKS / "sglang-0.5.9-sandbox.in").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    }
    assert asked <= locked
    assert not locked & {"torch", "sgl-kernel", "flashinfer-python", "xgrammar", "triton"}
