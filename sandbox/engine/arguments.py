"""The command line of an SGLang release, as its server_args.py defines it.

Releases up to 0.5.12 register each flag in `ServerArgs.add_cli_args`; later ones derive most from annotated
fields (`name: A[type, Arg(...)] = default`) of ServerArgs, and from 0.5.20 of the classes that it is put
together from. Both are read here, from the text alone.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.engine.source import Tree
from sandbox.engine.transplant import transplant
from sandbox.engine.values import Definition, Outside, Scope, Undecided
from sandbox.errors import SandboxError

SERVER_ARGS = "sglang.srt.server_args"
PROGRAM = "launch_server.py"

_TYPES: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float, "json.loads": json.loads}
_PASSED_ON = ("choices", "nargs", "const", "dest", "metavar", "required", "default")


@dataclass(frozen=True)
class Argument:
    """One `add_argument` call: its option strings and the keywords that argparse gets."""

    flags: tuple[str, ...]
    keywords: dict[str, Any]


def command_line(tree: Tree) -> argparse.ArgumentParser:
    """The release's parser for launch_server. Raises SandboxError where the source defines no flag."""
    parser = argparse.ArgumentParser(prog=PROGRAM)
    for argument in definitions(tree):
        try:
            parser.add_argument(*argument.flags, **argument.keywords)
        except (TypeError, ValueError, argparse.ArgumentError) as error:
            raise SandboxError(
                f"server_args.py defines {'/'.join(argument.flags)} in a way that argparse refuses: {error}",
                "reinstall SGLang; if it is as released, report this with its version",
            ) from error
    return parser


def definitions(tree: Tree) -> list[Argument]:
    """Every flag of the release, in the order in which it is registered."""
    try:
        module = tree.module(SERVER_ARGS)
        server_args = module.lookup("ServerArgs")
        register = server_args.attribute("add_cli_args")
    except (Undecided, AttributeError) as error:
        raise SandboxError(
            f"cannot read the flags of this SGLang from {SERVER_ARGS}: {error}",
            "reinstall SGLang into this environment",
        ) from error
    fields = _fields(module, server_args)
    return [*_annotated(fields), *_registered(module, register, fields)]


@dataclass(frozen=True)
class _Field:
    """An annotated class attribute of ServerArgs, or of a class that it is put together from."""

    module: Scope
    name: str
    annotation: ast.expr
    default: ast.expr | None

    def default_value(self) -> Any:
        """Raises Undecided, also where there is no default."""
        if self.default is None:
            raise Undecided(f"{self.name} has no default")
        return self.module.evaluate(self.default)


def _fields(module: Scope, server_args: Definition) -> dict[str, _Field]:
    classes = [server_args]
    if "_INPUT_NAMESPACES" in module.bound:
        classes += [part for part in module.lookup("_INPUT_NAMESPACES") if isinstance(part, Definition)]
    found: dict[str, _Field] = {}
    for part in classes:
        for owner in (part, *part.bases()):
            assert isinstance(owner.node, ast.ClassDef)
            for statement in owner.node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    name = statement.target.id
                    found.setdefault(name, _Field(owner.module, name, statement.annotation, statement.value))
    return found


def _registered(module: Scope, register: Definition, fields: dict[str, _Field]) -> Iterator[Argument]:
    """The `parser.add_argument(...)` calls of a function, with the names bound before each of them."""
    assert isinstance(register.node, ast.FunctionDef)
    local: dict[str, Any] = {}
    for statement in register.node.body:
        if isinstance(statement, ast.Expr) and _is_add_argument(statement.value):
            assert isinstance(statement.value, ast.Call)
            yield _from_call(module, statement.value, local, fields)
        else:
            module.run([statement], local)


def declared(tree: Tree) -> dict[str, Any]:
    """The fields of ServerArgs in order, each with its default; None where the text does not say."""
    module = tree.module(SERVER_ARGS)
    fields = _fields(module, module.lookup("ServerArgs"))
    return {
        name: _default_of(fields, name)
        for name, field in fields.items()
        if not ast.unparse(field.annotation).startswith("ClassVar")
    }


def renamed(tree: Tree) -> dict[str, str]:
    """Which field gets its value from an option of another name: `{"tp_size": "tensor_parallel_size"}`.

    Releases that register flags by hand say so as `args.tp_size = args.tensor_parallel_size`.
    """
    module = tree.module(SERVER_ARGS)
    method = module.lookup("ServerArgs").attribute("from_cli_args")
    found = {}
    for statement in method.node.body:
        match statement:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="args"), attr=name)],
                value=ast.Attribute(value=ast.Name(id="args"), attr=option),
            ):
                found[name] = option
    return found


def _is_add_argument(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_argument"
        and bool(node.args)
    )


def _from_call(module: Scope, call: ast.Call, local: dict[str, Any], fields: dict[str, _Field]) -> Argument:
    flags = tuple(module.evaluate(flag, local) for flag in call.args)
    keywords: dict[str, Any] = {}
    for word in call.keywords:
        if word.arg is None:
            continue
        try:
            keywords[word.arg] = module.evaluate(word.value, local)
        except Undecided:
            if word.arg == "default":
                keywords["default"] = _default_of(fields, _destination(flags, call))
    return Argument(flags, _for_argparse(keywords))


def _destination(flags: Sequence[str], call: ast.Call) -> str:
    for word in call.keywords:
        if word.arg == "dest" and isinstance(word.value, ast.Constant):
            return str(word.value.value)
    return flags[0].lstrip("-").replace("-", "_")


def _default_of(fields: dict[str, _Field], name: str) -> Any:
    try:
        return fields[name].default_value()
    except (KeyError, Undecided):
        return None


def _annotated(fields: dict[str, _Field]) -> Iterator[Argument]:
    for field in fields.values():
        match field.annotation:
            case ast.Subscript(value=ast.Name(id="A"), slice=ast.Tuple(elts=[kind, *notes])):
                options = _options(field.module, notes)
                if options and not options.get("no_cli"):
                    yield _from_field(field, kind, options)


def _from_field(field: _Field, kind: ast.expr, options: dict[str, Any]) -> Argument:
    flag = options.get("cli_name") or "--" + field.name.replace("_", "-")
    keywords: dict[str, Any] = {"help": options.get("help", "")}
    try:
        keywords["default"] = field.default_value()
    except Undecided:
        keywords["required"] = field.default is None and options.get("required") is not False
    if field.name != flag.lstrip("-").replace("-", "_"):
        keywords["dest"] = field.name
    keywords |= {name: options[name] for name in ("choices", "nargs", "const") if options.get(name) is not None}
    if options.get("action") is not None:
        keywords |= {"action": options["action"], **(options.get("action_kwargs") or {})}
    else:
        keywords |= _kind(field.module, kind, options, keywords)
    return Argument((flag, *(options.get("aliases") or ())), _for_argparse(keywords))


def _options(module: Scope, notes: list[ast.expr]) -> dict[str, Any]:
    """What the first `Arg(...)` or bare help string among a field's notes says; {} where there is neither."""
    for note in notes:
        match note:
            case ast.Call(func=ast.Name(id="Arg"), args=positional, keywords=words):
                given = [*zip(("help", "choices", "aliases"), positional, strict=False)]
                return _decided_only(module, [*given, *((word.arg or "", word.value) for word in words)])
            case ast.Constant(value=str()) | ast.JoinedStr() | ast.BinOp():
                return {"help": ""} | _decided_only(module, [("help", note)])
    return {}


def _decided_only(module: Scope, expressions: list[tuple[str, ast.expr]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, expression in expressions:
        try:
            found[name] = module.evaluate(expression)
        except Undecided:
            continue
    return found


def _kind(module: Scope, kind: ast.expr, options: dict[str, Any], so_far: dict[str, Any]) -> dict[str, Any]:
    """argparse's keywords for a field's type, as SGLang's add_cli_args_from_dataclass chooses them."""
    inner = _without_none(kind)
    convert = options.get("type_parser")
    match inner:
        case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
            items = values.elts if isinstance(values, ast.Tuple) else [values]
            literals = [module.evaluate(item) for item in items]
            return {"type": convert or Outside(type(literals[0]).__name__), "choices": so_far.get("choices", literals)}
        case ast.Subscript(value=ast.Name(id="List" | "list"), slice=element) if convert is None:
            return {"type": Outside(ast.unparse(element)), "nargs": so_far.get("nargs", "+")}
        case ast.Name(id="bool"):
            return {"action": "store_true"}
    return {"type": convert or Outside(ast.unparse(inner))}


def _without_none(kind: ast.expr) -> ast.expr:
    match kind:
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return inner
        case ast.BinOp(left=inner, op=ast.BitOr(), right=ast.Constant(value=None)):
            return inner
        case ast.BinOp(left=ast.Constant(value=None), op=ast.BitOr(), right=inner):
            return inner
    return kind


def _for_argparse(keywords: dict[str, Any]) -> dict[str, Any]:
    """Only what argparse understands of these keywords, as the objects that it wants."""
    ready = {name: keywords[name] for name in _PASSED_ON if name in keywords}
    if isinstance(ready.get("default"), Outside):
        ready["default"] = argparse.SUPPRESS if ready["default"].name == "argparse.SUPPRESS" else None
    if not isinstance(ready.get("choices"), list | tuple | set | frozenset | dict | type(None) | range):
        del ready["choices"]
    if isinstance(ready.get("choices"), set | frozenset | dict):
        ready["choices"] = sorted(ready["choices"])
    ready["help"] = str(keywords.get("help", "")).replace("%", "%%")
    action = keywords.get("action")
    match action:
        case None:
            ready["type"] = _converter(keywords.get("type"))
        case "store_true" | "store_false":
            for name in ("choices", "nargs", "const", "metavar"):
                ready.pop(name, None)
            ready["action"] = action
        case str():
            ready["action"] = action
        case Outside(name="argparse.BooleanOptionalAction"):
            ready["action"] = argparse.BooleanOptionalAction
        case Definition(node=ast.ClassDef()):
            extra = {name: value for name, value in keywords.items() if name not in (*_PASSED_ON, "help", "action")}
            extra.pop("type", None)
            ready |= extra | {"action": transplant(action), "type": _converter(keywords.get("type"))}
        case _:
            ready["type"] = str
    return ready


def _converter(kind: Any) -> Callable[[str], Any]:
    match kind:
        case Outside(name=name):
            return _TYPES.get(name, str)
        case Definition(node=ast.FunctionDef()):
            converter: Callable[[str], Any] = transplant(kind)
            return converter
    return str


def parse(tree: Tree, argv: Sequence[str]) -> argparse.Namespace:
    """The parsed command line; exits with 2 and the usage on stderr as argparse does for launch_server."""
    parser = command_line(tree)
    parsed = parser.parse_args(list(argv))
    if getattr(parsed, "config", None):
        parser.error("the SIMULATED engine does not read --config files: give it the flags themselves")
    return parsed
