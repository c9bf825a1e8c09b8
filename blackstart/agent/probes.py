"""Facts: small questions about a machine, asked many at a time. Nothing here changes anything."""

import collections
import glob
import json
import os
from typing import Any, Callable, Dict, Iterator, List

from .run import run
from .units import show
from .world import World, sha256

MAX_TEXT = 4 << 20
MAX_LINES = 100_000


def probe(world: World, question: Dict[str, Any]) -> Any:
    """One question's answer, as JSON data. A machine that does not exist yet answers as an empty one."""
    return KINDS[question["probe"]](world, question)


def places(question: Dict[str, Any]) -> List[str]:
    """The paths at or below which a question looks: of a pattern, the folder before its first wildcard."""
    found = []
    for field in ("path", "pattern", "root", "listed", "record"):
        path = question.get(field) or ""
        wildcard = min((path.index(mark) for mark in "*?[" if mark in path), default=None)
        found.append(path if wildcard is None else os.path.dirname(path[:wildcard]))
    return [path for path in found if path]


def _file(world: World, question: Dict[str, Any]) -> Any:
    """{text, sha256} of a file; None where there is none."""
    content = world.read(question["path"])
    if content is None or len(content) > MAX_TEXT:
        return None
    return {"text": content.decode("utf-8", "surrogateescape"), "sha256": sha256(content)}


def _entry(world: World, question: Dict[str, Any]) -> Any:
    """{kind, target} of a path, links not followed."""
    entry = world.entry(question["path"], follow=False)
    return {"kind": entry.kind, "target": entry.target}


def _glob(world: World, question: Dict[str, Any]) -> Any:
    """The paths that match a pattern, sorted."""
    return [] if world.is_empty else sorted(glob.glob(question["pattern"]))


def _files(world: World, question: Dict[str, Any]) -> Any:
    """{path: {text, sha256}} of all files that match a pattern."""
    found = {path: _file(world, {"path": path}) for path in _glob(world, question)}
    return {path: answer for path, answer in found.items() if answer is not None}


def _unit(world: World, question: Dict[str, Any]) -> Any:
    """systemd's properties of a unit."""
    return {"ActiveState": "inactive"} if world.is_empty else show(question["unit"])


def _search(world: World, question: Dict[str, Any]) -> Any:
    """{path: {sha256, text?, record?}} of the files below `root` with one of `suffixes` that hold one of `needles`.

    Files whose path ends like one of `paths`, or like a key of "files" in the JSON record that the pattern `listed`
    finds, are told of whatever they hold. `root` may be a pattern. A file whose
    sha256 is in `known` comes without its text: the asker has it. `record` is the file's line in the first match of
    the pattern `record`, a wheel's RECORD.
    """
    if world.is_empty:
        return {}
    needles: List[bytes] = [needle.encode() for needle in question["needles"]]
    named = tuple("/" + path for path in [*question.get("paths", []), *_listed(question.get("listed", ""))])
    suffixes, known = tuple(question["suffixes"]), set(question["known"])
    found = {}
    for root in sorted(glob.glob(question["root"])):
        for path in _walk(root, suffixes + named):
            with open(path, "rb") as stream:
                content = stream.read()
            if any(needle in content for needle in needles) or (named and path.endswith(named)):
                digest = sha256(content)
                answer = {"sha256": digest}
                if digest not in known:
                    answer["text"] = content.decode("utf-8", "surrogateescape")
                found[path] = answer
    if found and question.get("record"):
        _add_record_lines(found, question["record"])
    return found


def _listed(pattern: str) -> List[str]:
    for record in glob.glob(pattern)[:1]:
        try:
            with open(record, encoding="utf-8") as stream:
                return list(json.load(stream)["files"])
        except (ValueError, KeyError, TypeError):
            return []  # damaged: whoever reads it says so
    return []


def _walk(root: str, suffixes: "tuple[str, ...]") -> Iterator[str]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if path.endswith(suffixes) and os.path.isfile(path):  # a link may lead nowhere, a pipe would block
                yield path


def _add_record_lines(found: Dict[str, Dict[str, str]], pattern: str) -> None:
    for record in glob.glob(pattern)[:1]:
        site = os.path.dirname(os.path.dirname(record)) + "/"
        with open(record, encoding="utf-8", errors="replace") as stream:
            lines = {line.split(",", 1)[0]: line.rstrip("\n") for line in stream}
        for path, answer in found.items():
            line = lines.get(path[len(site) :]) if path.startswith(site) else None
            if line:
                answer["record"] = line


def _listener(world: World, question: Dict[str, Any]) -> Any:
    """Who listens on a TCP port: {pid, name, unit}; None where nobody does."""
    if world.is_empty:
        return None
    inodes = _listening_inodes(question["port"])
    if not inodes:
        return None
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if _holds_one_of(pid, inodes):
                with open("/proc/%s/comm" % pid) as stream:
                    name = stream.read().strip()
                return {"pid": int(pid), "name": name, "unit": _unit_of(pid)}
        except OSError:
            continue  # it ended, or is not ours to look at
    return {"pid": 0, "name": "a process that this login may not see", "unit": ""}


def _holds_one_of(pid: str, inodes: "set[str]") -> bool:
    folder = "/proc/%s/fd" % pid
    for number in os.listdir(folder):
        try:
            if os.readlink(os.path.join(folder, number)) in inodes:
                return True
        except FileNotFoundError:
            continue  # closed since; the others still count
    return False


def _listening_inodes(port: int) -> "set[str]":
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not os.path.exists(table):
            continue
        with open(table) as stream:
            for row in stream.readlines()[1:]:
                fields = row.split()
                if int(fields[1].rsplit(":", 1)[1], 16) == port and fields[3] == "0A":
                    inodes.add("socket:[%s]" % fields[9])
    return inodes


def _unit_of(pid: str) -> str:
    with open("/proc/%s/cgroup" % pid) as stream:
        for row in stream:
            for part in reversed(row.strip().split("/")):
                if part.endswith(".service"):
                    return part
    return ""


def _run(world: World, question: Dict[str, Any]) -> Any:
    """{status, output} of a program that only reads."""
    if world.is_empty:
        return {"status": 127, "output": ""}
    ran = run(question["argv"], timeout=question.get("timeout", 60))
    return {"status": ran.status, "output": ran.output}


def _processes(world: World, question: Dict[str, Any]) -> Any:
    """[{pid, command}] of the processes whose full command line holds `needle`; zombies do not count."""
    if world.is_empty:
        return []
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as stream:
                command = stream.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        if question["needle"] in command and int(pid) != os.getpid():
            found.append({"pid": int(pid), "command": command})
    return found


def _tail(world: World, question: Dict[str, Any]) -> Any:
    """The last `lines` lines of a file, at most MAX_LINES; [] where there is none."""
    if world.is_empty or not os.path.exists(question["path"]):
        return []
    with open(question["path"], encoding="utf-8", errors="replace") as stream:
        return [line.rstrip("\n") for line in collections.deque(stream, min(question["lines"], MAX_LINES))]


def _http(world: World, question: Dict[str, Any]) -> Any:
    """{status, body} of a GET on this machine; status 0 where nothing answers."""
    import http.client  # here, because most runs ask no server
    import urllib.error
    import urllib.request

    if world.is_empty:
        return {"status": 0, "body": ""}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(question["url"], timeout=question.get("timeout", 25)) as answer:
            return {"status": answer.status, "body": answer.read(MAX_TEXT).decode("utf-8", "replace")}
    except urllib.error.HTTPError as error:
        with error:
            return {"status": error.code, "body": error.read(MAX_TEXT).decode("utf-8", "replace")}
    except (OSError, http.client.HTTPException) as error:
        return {"status": 0, "body": str(error) or type(error).__name__}


KINDS: Dict[str, Callable[[World, Dict[str, Any]], Any]] = {
    "file": _file,
    "files": _files,
    "entry": _entry,
    "glob": _glob,
    "unit": _unit,
    "search": _search,
    "listener": _listener,
    "run": _run,
    "processes": _processes,
    "http": _http,
    "tail": _tail,
}
