"""The agent as one program: its modules, and the few lines that import them from memory on the machine.

They travel as bytecode and as source. A machine whose Python reads the controller's bytecode need not compile them,
which would take it longer than everything else that a run without changes does; the others, and tracebacks, have the
source.
"""

from __future__ import annotations

import functools
import hashlib
import json
import marshal
import os
import threading
import zlib
from collections.abc import Mapping
from importlib.util import MAGIC_NUMBER
from pathlib import Path

AGENT = Path(__file__).parent / "agent"
PACKAGE = "blackstart_agent"
HASH = 32
KEPT = 8
"""Programs in the cache: of other checkouts, other versions, other Pythons."""

# Reads one length-prefixed block from stdin, the loader, which reads the others and leaves stdin to the agent.
BOOTSTRAP = (
    "import os,zlib\n"
    "def take(n):\n"
    " b=b''\n"
    " while len(b)<n:\n"
    "  c=os.read(0,n-len(b))\n"
    "  if not c:raise SystemExit(0)\n"
    "  b+=c\n"
    " return b\n"
    "def block():return take(int(take(8)))\n"
    "exec(zlib.decompress(block()))"
)

LOADER = """
import importlib.util, json, marshal, sys
magic, compiled, sources = block(), block(), block()
codes = marshal.loads(zlib.decompress(compiled)) if magic == importlib.util.MAGIC_NUMBER else {}
class Modules:
    def find_spec(self, name, path=None, target=None):
        if name == PACKAGE or name.startswith(PACKAGE + "."):
            return importlib.util.spec_from_loader(name, self, is_package=name == PACKAGE)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(codes.get(module.__name__) or self.get_code(module.__name__), module.__dict__)
    def get_code(self, name):  # with a file name, so that a traceback tells modules apart
        return compile(self.get_source(name), name.replace(".", "/") + ".py", "exec", dont_inherit=True)
    def get_source(self, name):
        global sources
        if isinstance(sources, bytes):
            sources = json.loads(zlib.decompress(sources))
        return sources[name]
sys.meta_path.insert(0, Modules())
importlib.import_module(PACKAGE + ".main").main()
"""


@functools.cache
def program() -> bytes:
    """The agent as BOOTSTRAP reads it."""
    sources = _sources()
    digest = hashlib.sha256(MAGIC_NUMBER + json.dumps([BOOTSTRAP, LOADER, sources]).encode()).hexdigest()
    place = _cache() / f"{digest}.program"
    kept = _kept(place)
    if kept is None:
        kept = build(sources)
        _keep(place, kept)
    return kept


def build(sources: Mapping[str, str]) -> bytes:
    """Module names with their sources → loader, magic number, bytecode and sources, each with its length before it."""
    codes = {
        name: compile(source, name.replace(".", "/") + ".py", "exec", dont_inherit=True)
        for name, source in sources.items()
    }
    blocks = (
        zlib.compress(f"PACKAGE = {PACKAGE!r}\n{LOADER}".encode()),
        MAGIC_NUMBER,
        zlib.compress(marshal.dumps(codes)),
        zlib.compress(json.dumps(sources).encode()),
    )
    return b"".join(b"%08d" % len(block) + block for block in blocks)


def _sources() -> dict[str, str]:
    modules = sorted(module for module in AGENT.glob("*.py") if module.name != "__init__.py")
    return {PACKAGE: "", **{f"{PACKAGE}.{module.stem}": module.read_text() for module in modules}}


def _cache() -> Path:
    return Path(os.environ.get("BLACKSTART_CACHE") or Path.home() / ".cache" / "blackstart") / "agents"


def _kept(place: Path) -> bytes | None:
    """What an earlier run kept, whole or not at all: its own hash stands before it."""
    try:
        content = place.read_bytes()
    except OSError:
        return None
    made = content[HASH:]
    return made if hashlib.sha256(made).digest() == content[:HASH] else None


def _keep(place: Path, made: bytes) -> None:
    """For the next run; without a folder that can be written, each run builds its own."""
    beside = place.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with beside.open("wb") as stream:
            stream.write(hashlib.sha256(made).digest() + made)
            os.fsync(stream.fileno())  # or a power cut leaves an empty program under a good name
        beside.rename(place)
        for old in sorted(place.parent.iterdir(), key=lambda path: path.stat().st_mtime_ns)[:-KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        return
