"""Making the sandbox whole: its wheelhouse, its stand-in model, its host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blackstart.errors import CheckError
from blackstart.front import Door
from blackstart.paths import INVENTORY
from sandbox import host, model, wheelhouse
from sandbox.errors import SandboxError, said
from sandbox.paths import Paths

LOCKS = [INVENTORY / "locks" / "sglang-0.5.9-sandbox.txt", INVENTORY / "locks" / "uv.txt"]


@contextmanager
def spoken() -> Iterator[None]:
    """The sandbox's errors in the words of the front door."""
    try:
        with said():
            yield
    except SandboxError as error:
        raise CheckError(error.message, where="sandbox", remedy=error.remedy) from None


class Stages:
    """Tells the stages of a run apart by name and times each."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._name = ""
        self._timer = door.timed("")

    def __call__(self, stage: str, text: str) -> None:
        if stage != self._name:
            self.close()
            self._name = stage
            self._timer = self._door.timed(stage)
            self._timer.__enter__()
            self._door.console.line(f"sandbox    {stage}: {text}")
        self._door.console.stage("sandbox", f"{stage}: {text}")

    def close(self) -> None:
        if self._name:
            self._timer.__exit__(None, None, None)
            self._door.console.rests("sandbox")
            self._name = ""


def ensure(door: Door) -> None:
    """Create what is absent, heal what is broken; a running sandbox costs next to nothing. Raises CheckError."""
    stages = Stages(door)
    paths = Paths.default()
    with spoken():
        found = host.preconditions()
        if found:
            raise SandboxError("it cannot work here: " + "; ".join(found), "mend that, or use a host of your own")
        wheelhouse.fill(LOCKS, paths.wheelhouse, lambda text: stages("wheels", text))
        model.build(paths.models)
        host.up(stages)
    stages.close()
