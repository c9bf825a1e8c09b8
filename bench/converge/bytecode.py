"""Whether Python files have bytecode that fits them: a tool that compiles itself while it is timed is another tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

SWITCH = "PYTHONDONTWRITEBYTECODE"
LIBRARIES = (
    "ansible",
    "ansible_mitogen",
    "cryptography",
    "fabric",
    "invoke",
    "jinja2",
    "mitogen",
    "paramiko",
    "pydantic",
    "pyinfra",
    "rich",
    "tenacity",
    "yaml",
)


def _is_compiled(source: Path, tag: str) -> bool:
    """Whether the bytecode beside a source was made from it, by the time and size that it carries."""
    compiled = source.parent / "__pycache__" / f"{source.stem}.{tag}.pyc"
    try:
        header = compiled.read_bytes()[:16]
    except FileNotFoundError:
        return False
    status = source.stat()
    stamp = (int(status.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little")
    size = (status.st_size & 0xFFFFFFFF).to_bytes(4, "little")
    return header[4:] == b"\0\0\0\0" + stamp + size


def uncompiled(folders: Iterable[Path], tag: str) -> list[Path]:
    """The sources below these folders whose bytecode is missing or of another source. `tag`: such as cpython-311."""
    return [source for folder in folders for source in sorted(folder.rglob("*.py")) if not _is_compiled(source, tag)]


def libraries(venv: Path) -> tuple[list[Path], str]:
    """The folders of an environment's libraries that contestants import, and its Python's tag."""
    (site,) = venv.glob("lib/python3*/site-packages")
    tag = "cpython-" + site.parent.name.removeprefix("python").replace(".", "")
    return [site / name for name in LIBRARIES if (site / name).is_dir()], tag


def objection(environment: Mapping[str, str], missing: Iterable[Path]) -> str:
    """Why nothing may be measured; empty where nothing stands against it."""
    if environment.get(SWITCH):
        return f"{SWITCH} is set: nobody would run from bytecode. Run it with `env -u {SWITCH}`."
    names = [str(path) for path in missing]
    if names:
        return f"{len(names)} sources have no bytecode, such as {names[0]}. Run bench/converge/install.sh."
    return ""
