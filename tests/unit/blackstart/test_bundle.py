import ast
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import MAGIC_NUMBER

import pytest

from blackstart import bundle

MODULES = sorted(bundle.AGENT.glob("*.py"))
# What the oldest supported machine, Python 3.8, has in its standard library.
STDLIB_3_8 = frozenset(sys.stdlib_module_names) - {"tomllib", "zoneinfo", "graphlib"}


def imports(tree):
    """(level, module) of every import of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_agent_speaks_the_python_of_old_machines(path):
    ast.parse(path.read_text(), feature_version=(3, 8))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_agent_imports_nothing_but_the_standard_library_and_itself(path):
    own = {module.stem for module in MODULES} | {""}
    for level, name in imports(ast.parse(path.read_text())):
        if level == 0:
            assert name.split(".")[0] in STDLIB_3_8, f"{path.name} imports {name}"
        else:
            assert level == 1 and name in own, f"{path.name} imports {'.' * level}{name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_annotations_that_are_evaluated_use_typing(path):
    """`list[str]` in a signature is a TypeError on 3.8 unless it is text."""
    for node in ast.walk(ast.parse(path.read_text())):
        annotations = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            annotations = [argument.annotation for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]
            annotations.append(node.returns)
        if isinstance(node, ast.AnnAssign):
            annotations = [node.annotation]
        for annotation in filter(None, annotations):
            for part in ast.walk(annotation):
                assert not isinstance(part, ast.BinOp), f"{path.name}:{node.lineno} uses | in an annotation"
                if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name):
                    assert part.value.id not in ("list", "dict", "set", "tuple", "type"), f"{path.name}:{node.lineno}"


def start(*arguments, **options):
    command = [sys.executable, "-IS", "-c", bundle.BOOTSTRAP, *arguments]
    return subprocess.run(command, capture_output=True, timeout=20, **options)


def test_the_program_runs_and_ends_well_when_its_input_does():
    ran = start(input=bundle.program())
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_the_program_leaves_stdin_to_its_requests():
    request = b'{"op":"probe","controller":"me","groups":{"g":[{"probe":"entry","path":"/"}]}}'
    ran = start(input=bundle.program() + b"%d\n%s" % (len(request), request))
    facts, end = ran.stdout.split()
    assert b'"kind":"directory"' in facts and b'"group":"g"' in facts
    assert end == b'{"e":"end"}'


@pytest.mark.parametrize("cut", [0, 3, 8, 200])
def test_a_program_that_is_cut_off_on_its_way_does_nothing(cut):
    ran = start(input=bundle.program()[:cut])
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_the_program_is_small_enough_to_send_each_time_and_the_same_each_time():
    assert len(bundle.program()) < 160_000
    first = bundle.program()
    bundle.program.cache_clear()
    assert bundle.program() == first


def test_a_traceback_of_the_agent_shows_its_source():
    request = b'{"op":"none such","controller":"me"}'
    ran = start(input=bundle.program() + b"%d\n%s" % (len(request), request))
    assert b"KeyError: 'none such'" in ran.stdout
    assert b"OPERATIONS[request" in ran.stdout  # the line itself: sources come along


def blocks(program):
    """The loader, the magic number, the bytecode and the sources."""
    found = []
    while program:
        length = int(program[:8])
        found.append(program[8 : 8 + length])
        program = program[8 + length :]
    return found


def joined(parts):
    return b"".join(b"%08d" % len(part) + part for part in parts)


SAYS_HELLO = {bundle.PACKAGE: "", f"{bundle.PACKAGE}.main": "def main(): print('hello')"}
SAYS_GOODBYE = {bundle.PACKAGE: "", f"{bundle.PACKAGE}.main": "def main(): print('goodbye')"}


def told_apart(magic):
    """A program whose bytecode says hello and whose source says goodbye."""
    loader, _, bytecode, _ = blocks(bundle.build(SAYS_HELLO))
    return joined([loader, magic, bytecode, blocks(bundle.build(SAYS_GOODBYE))[3]])


def test_a_machine_of_the_same_python_runs_the_bytecode():
    assert start(input=told_apart(MAGIC_NUMBER)).stdout == b"hello\n"


def test_a_machine_of_another_python_compiles_the_source():
    assert start(input=told_apart(b"\1\2\r\n")).stdout == b"goodbye\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BLACKSTART_CACHE", str(tmp_path / "cache"))
    bundle.program.cache_clear()
    yield tmp_path / "cache" / "agents"
    bundle.program.cache_clear()


def test_a_program_is_built_once_and_kept_for_the_next_run(cache, monkeypatch):
    first = bundle.program()
    (kept,) = cache.iterdir()
    assert kept.read_bytes().endswith(first)
    monkeypatch.setattr(bundle, "build", lambda sources: pytest.fail("it was built again"))
    bundle.program.cache_clear()
    assert bundle.program() == first


def test_changed_sources_are_another_program(cache, monkeypatch):
    monkeypatch.setattr(bundle, "_sources", lambda: SAYS_HELLO)
    hello = bundle.program()
    monkeypatch.setattr(bundle, "_sources", lambda: SAYS_GOODBYE)
    bundle.program.cache_clear()
    assert bundle.program() != hello
    assert start(input=bundle.program()).stdout == b"goodbye\n"


def test_old_programs_go(cache, monkeypatch):
    for n in range(bundle.KEPT + 3):
        monkeypatch.setattr(bundle, "_sources", lambda n=n: {**SAYS_HELLO, "n": str(n)})
        bundle.program.cache_clear()
        last = bundle.program()
    assert len(list(cache.iterdir())) == bundle.KEPT
    assert any(path.read_bytes().endswith(last) for path in cache.iterdir())


@pytest.mark.parametrize("damage", [lambda whole: b"", lambda whole: whole[:-100], lambda whole: whole[:-1] + b"?"])
def test_a_damaged_program_is_built_anew(cache, damage):
    first = bundle.program()
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(damage(whole))
    bundle.program.cache_clear()
    assert bundle.program() == first
    assert kept.read_bytes() == whole


def test_threads_that_build_at_once_all_have_a_whole_one(cache, monkeypatch):
    whole = bundle.program()
    monkeypatch.setattr(bundle, "build", lambda sources: whole)
    program = bundle.program.__wrapped__
    for _ in range(20):
        for kept in cache.iterdir():
            kept.unlink()
        with ThreadPoolExecutor(8) as pool:
            assert {*pool.map(lambda number: program(), range(16))} == {whole}
        (kept,) = cache.iterdir()
        assert kept.read_bytes().endswith(whole)


def test_without_a_folder_to_keep_it_in_a_program_is_built_each_time(cache):
    cache.parent.write_text("a file where the folder would be")
    assert bundle.program() == bundle.build(bundle._sources())
