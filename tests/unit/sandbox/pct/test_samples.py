"""The stand-in against what the real `pct` said: same text, same exit code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.sandbox.pct.world import SGLANG, World
from tests.unit.sandbox.pct.world import world as world  # a fixture

SAMPLES = Path(__file__).parents[1] / "samples"


@dataclass(frozen=True)
class Sample:
    """One command of a recorded session."""

    argv: tuple[str, ...]
    said: tuple[str, ...]
    code: int

    @property
    def name(self) -> str:
        return " ".join(self.argv)


def recorded(name: str) -> Iterator[Sample]:
    argv: tuple[str, ...] = ()
    said: list[str] = []
    for line in (SAMPLES / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("$ pct "):
            # The recording shows arguments unquoted; a hand-written `--` part is a single shell word there.
            argv, said = tuple(shlex.split(line.removeprefix("$ pct "), comments=False)), []
        elif ended := re.fullmatch(r"    \[rc=(\d+)\]", line):
            yield Sample(argv, tuple(said), int(ended[1]))
        elif argv and line.startswith("    "):
            said.append(line[4:])


def only(name: str, command: str, occurrence: int = 0) -> Sample:
    return [sample for sample in recorded(name) if sample.name == command][occurrence]


def said_by(world: World, sample: Sample, capfd: pytest.CaptureFixture[str]) -> tuple[list[str], int]:
    capfd.readouterr()
    code = world.pct(*sample.argv)
    out, err = capfd.readouterr()
    return plain(err + out), code


def plain(text: str) -> list[str]:
    """Lines without trailing blanks, and without tar's own count of bytes."""
    lines = [line.rstrip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("Total bytes read")]


# Errors whose state the recording machine was in, and a fresh world is not.
ABSENT_DEVICE = {
    # There the real one tests a stale errno and names a device that is present; see get_device_mode_and_rdev.
    "set 200 --dev3 /dev/null,mode=0666": "/dev/nvidia0",
    "set 200 --delete dev99": "/dev/nvidiactl",
}
# Recorded through `head`, so that the end is missing.
CUT = {"pending 200"}


def ids(sample: Sample) -> str:
    return sample.name[:60]


@pytest.mark.parametrize("sample", list(recorded("pct-errors.txt")), ids=ids)
def test_error_session(sample: Sample, world: World, capfd: pytest.CaptureFixture[str]) -> None:
    command, *rest = sample.argv
    if command == "create" and not sample.said[0].startswith("CT "):
        world.remove(int(rest[0]) if rest[0].isdigit() else 0)
    if command == "destroy" and sample.code == 0:
        world.write(int(rest[0]), SGLANG)
    if command == "pending":
        world.write(200, SGLANG.replace("features", "dev3: /dev/null,mode=0666\nfeatures"))
    if sample.name in ABSENT_DEVICE:
        world.absent.add(ABSENT_DEVICE[sample.name])

    said, code = said_by(world, sample, capfd)

    expected = plain("\n".join(sample.said))
    assert (said[: len(expected)] if sample.name in CUT else said) == expected
    assert code == sample.code


def test_the_blank_lines_of_a_format_error_are_there_too(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    world.remove(201)
    for sample in recorded("pct-errors.txt"):
        if "format error" in "".join(sample.said):
            world.pct(*sample.argv)
            assert capfd.readouterr().err.splitlines() == list(sample.said), sample.name


def locked(world: World) -> None:
    world.write(200, SGLANG.replace("memory", "lock: backup\nmemory"))


def uvm_absent(world: World) -> None:
    world.absent.add("/dev/nvidia-uvm")


def with_hook(mode: int, text: str = "#!/bin/sh\n") -> Callable[[World], None]:
    def change(world: World) -> None:
        world.script("gpu.sh", text, mode)

    return change


def running(world: World) -> None:
    world.running.add(200)


def as_it_is(world: World) -> None:
    pass


LIFECYCLE = [
    ("pct-lifecycle.txt", "start 200", 0, as_it_is),
    ("pct-lifecycle.txt", "list", 0, running),
    ("pct-lifecycle.txt", "status 200", 0, running),
    ("pct-lifecycle.txt", "stop 200", 0, running),
    ("pct-lifecycle.txt", "stop 200", 1, as_it_is),
    ("pct-lifecycle.txt", "start 200", 1, uvm_absent),
    ("pct-lifecycle.txt", "set 200 --hookscript local:snippets/gpu.sh", 0, with_hook(0o644)),
    ("pct-lifecycle.txt", "set 200 --hookscript local:snippets/gpu.sh", 1, with_hook(0o755)),
    ("pct-lifecycle.txt", "start 200", 4, locked),
    ("pct-lifecycle.txt", "set 200 --memory 4096", 0, locked),
    ("pct-lifecycle.txt", "destroy 200", 0, locked),
    ("pct-lifecycle.txt", "unlock 200", 0, locked),
    ("pct-lifecycle.txt", "set 200 --memory 4096", 1, as_it_is),
    ("pct-lifecycle.txt", "start 203", 0, as_it_is),
    ("pct-lifecycle.txt", "set 200 --mp0 /no/such,mp=/m", 0, as_it_is),
    ("pct-start-generated-config.txt", "start 200", 1, running),
    ("pct-start-generated-config.txt", "destroy 200", 0, running),
    ("pct-start-generated-config.txt", "list", 1, as_it_is),
    ("pct-unprivileged.txt", "shutdown 210 --timeout 3", 0, lambda world: _other(world, 210, up=True)),
    ("pct-unprivileged.txt", "stop 210", 0, lambda world: _other(world, 210, up=False)),
    ("pct-unprivileged.txt", "destroy 210 --purge", 0, lambda world: _other(world, 210, up=False)),
]


def _other(world: World, vmid: int, *, up: bool) -> None:
    world.write(vmid, SGLANG)
    if up:
        world.running.add(vmid)


@pytest.mark.parametrize(("file", "command", "occurrence", "before"), LIFECYCLE, ids=lambda value: str(value)[:50])
def test_lifecycle_session(
    file: str,
    command: str,
    occurrence: int,
    before: Callable[[World], None],
    world: World,
    capfd: pytest.CaptureFixture[str],
) -> None:
    sample = only(file, command, occurrence)
    before(world)
    assert said_by(world, sample, capfd) == (plain("\n".join(sample.said)), sample.code)


def test_a_failing_hook_names_the_script_and_its_exit_code(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    sample = only("pct-lifecycle.txt", "start 200", 3)
    world.script(
        "gpu.sh", "#!/bin/sh\necho HOOK $1 $2\necho 'mknod: /dev/nvidia-uvm: File exists' >&2\nexit 1\n", 0o755
    )
    world.write(200, SGLANG.replace("hostname", "hookscript: local:snippets/gpu.sh\nhostname"))

    said, code = said_by(world, sample, capfd)

    real = [line.replace("/var/lib/vz", str(world.root / "vz")) for line in plain("\n".join(sample.said))]
    assert (sorted(said), code) == (sorted(real), sample.code)


def test_a_raw_line_that_is_not_known_is_warned_about_and_dropped(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    world.write(200, SGLANG + "lxc.bogus: 1\n")
    assert world.pct("config", "200") == 0
    assert "vm 200 - unable to parse config: lxc.bogus: 1" in capfd.readouterr().err
    assert world.pct("set", "200", "--memory", "2048") == 0
    assert "lxc.bogus" not in world.read(200)


def test_a_device_written_by_hand_and_wrong_fails_at_the_start(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    sample = only("pct-lifecycle.txt", "start 200", 5)
    world.write(200, SGLANG + "dev7: nvidia7\n")
    said, code = said_by(world, sample, capfd)
    assert (said, code) == (plain("\n".join(sample.said)), sample.code)


def test_raw_lines_stay_in_their_order_at_the_end(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    sample = only("pct-lifecycle.txt", "config 200", 0)
    raw = [line for line in sample.said if line.startswith("lxc.")]
    world.write(200, raw[0] + "\n" + SGLANG + "\n".join(line.replace(": ", " = ", 1) for line in raw[1:]) + "\n")
    assert world.pct("set", "200", "--memory", "4096") == 0
    capfd.readouterr()
    assert world.pct("config", "200") == 0
    assert capfd.readouterr().out.splitlines()[-len(raw) :] == raw
    assert world.read(200).splitlines()[-len(raw) :] == raw


def test_create_writes_what_the_real_one_writes(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    """The configuration that follows `pct create 210` in the recording."""
    text = (SAMPLES / "pct-lifecycle.txt").read_text(encoding="utf-8")
    sample = next(found for found in recorded("pct-lifecycle.txt") if found.argv[:2] == ("create", "210"))
    after = text.partition("--features nesting=1,keyctl=1\n")[2].partition("[rc=0]\n")[2].partition("$ pct")[0]
    models = world.root / "vz/models"
    models.mkdir()
    argv = [word.replace("/var/lib/vz/models", str(models)) for word in sample.argv]

    assert world.pct(*argv) == 0

    written = world.read(210).replace(str(models), "/var/lib/vz/models")
    address = re.compile(r"hwaddr=BC:24:11(?::[0-9A-F]{2}){3}")
    assert address.sub("hwaddr=*", written) == address.sub("hwaddr=*", after)
    assert plain("".join(capfd.readouterr())) == plain("\n".join(sample.said))
