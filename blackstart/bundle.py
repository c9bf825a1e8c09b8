"""The agent as one program: its modules' sources, and the few lines that import them from memory on the machine."""

from __future__ import annotations

import functools
import json
import zlib
from pathlib import Path

AGENT = Path(__file__).parent / "agent"
PACKAGE = "blackstart_agent"

# Reads one length-prefixed block from stdin and leaves the rest of stdin to the program.
BOOTSTRAP = (
    "import os,zlib\n"
    "def take(n):\n"
    " b=b''\n"
    " while len(b)<n:\n"
    "  c=os.read(0,n-len(b))\n"
    "  if not c:raise SystemExit(0)\n"
    "  b+=c\n"
    " return b\n"
    "exec(zlib.decompress(take(int(take(8)))))"
)

LOADER = """
import importlib.abc, importlib.util, json, sys
class Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self, is_package=name == PACKAGE) if name in SOURCES else None
    def get_source(self, name):
        return SOURCES[name]
    def get_code(self, name):  # with a file name, so that a traceback tells modules apart
        return compile(SOURCES[name], name.replace(".", "/") + ".py", "exec", dont_inherit=True)
    def is_package(self, name):
        return name == PACKAGE
sys.meta_path.insert(0, Sources())
importlib.import_module(PACKAGE + ".main").main()
"""


@functools.cache
def program() -> bytes:
    """The agent, compressed and length-prefixed, as BOOTSTRAP reads it."""
    sources = {PACKAGE: ""}
    for module in sorted(AGENT.glob("*.py")):
        if module.name != "__init__.py":
            sources[f"{PACKAGE}.{module.stem}"] = module.read_text()
    text = f"import importlib\nPACKAGE = {PACKAGE!r}\nSOURCES = __import__('json').loads({json.dumps(sources)!r})\n"
    packed = zlib.compress((text + LOADER).encode(), 6)
    return b"%08d" % len(packed) + packed
