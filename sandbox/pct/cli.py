"""`pct` itself: which subcommand, its arguments, its exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from sandbox.pct import change, create, guest, inside, properties, schema, show, store
from sandbox.pct.arguments import Parsed, Usage, check, parse
from sandbox.pct.failure import DIED, PctError

_VMID = ("vmid",)
_CREATE = Usage(
    "create",
    ("vmid", "ostemplate"),
    "pct create <vmid> <ostemplate> [OPTIONS]",
    options={name: name in schema.BOOLEANS for name in schema.ONLY_CREATE},
    container_options=True,
)
_SET = Usage("set", _VMID, "pct set <vmid> [OPTIONS]", dict.fromkeys(schema.ONLY_SET, False), container_options=True)
_NOT_HERE = (
    *("clone", "clone-disk", "console", "cpusets", "delsnapshot", "df", "enter", "fsck", "fstrim", "help"),
    *("listsnapshot", "migrate", "mount", "move-volume", "move_volume", "pull", "remote-migrate", "rescan", "resize"),
    *("restore", "resume", "rollback", "snapshot", "suspend", "template", "unmount"),
)


def _create(parsed: Parsed) -> None:
    create.create(_id(parsed), parsed.positions[1], parsed.options)


def _set(parsed: Parsed) -> None:
    change.change(_id(parsed), parsed.options)


def _config(parsed: Parsed) -> None:
    current = properties.is_true(parsed.options.get("current"))
    _say(show.config(_id(parsed), current=current, snapshot=parsed.options.get("snapshot")))


def _start(parsed: Parsed) -> None:
    vmid = _id(parsed)
    with store.alone(vmid):
        config = store.load(vmid, DIED)
        if not properties.is_true(parsed.options.get("skiplock")):
            store.refuse_locked(config)
        if guest.running(vmid):
            raise PctError(f"CT {vmid} already running", DIED)
        guest.start(vmid, config)


def _stop(parsed: Parsed) -> None:
    _end(_id(parsed), guest.stop)


def _shutdown(parsed: Parsed) -> None:
    timeout = int(parsed.options.get("timeout", "60"))
    force = properties.is_true(parsed.options.get("forceStop"))
    _end(_id(parsed), lambda vmid: guest.shutdown(vmid, timeout, force))


def _reboot(parsed: Parsed) -> None:
    _shutdown(parsed)
    _start(Parsed(parsed.positions, {}, []))


def _end(vmid: int, how: Callable[[int], None]) -> None:
    with store.alone(vmid):
        config = store.load(vmid)
        store.refuse_locked(config)
        if not guest.running(vmid):
            raise PctError(f"CT {vmid} not running", DIED)
        guest.run_hook(vmid, config, "pre-stop")
        how(vmid)
        guest.run_hook(vmid, config, "post-stop")


def _push(parsed: Parsed) -> None:
    options = parsed.options
    inside.push(
        _id(parsed),
        parsed.positions[1],
        parsed.positions[2],
        user=options.get("user", "0"),
        group=options.get("group", "0"),
        mode=options.get("perms", "0644"),
    )


def _destroy(parsed: Parsed) -> None:
    options = parsed.options
    create.destroy(
        _id(parsed), force=properties.is_true(options.get("force")), purge=properties.is_true(options.get("purge"))
    )


def _start_all(parsed: Parsed) -> None:
    """What pve-guests.service does at boot: every container with `onboot`, by its `startup` order."""

    def order(vmid: int) -> tuple[int, int]:
        startup = store.load(vmid).current.options.get("startup", "")
        first = startup.split(",")[0].removeprefix("order=")
        return (int(first) if first.isdigit() else sys.maxsize, vmid)

    for vmid in sorted(store.ids(), key=order):
        config = store.load(vmid)
        if properties.is_true(config.current.options.get("onboot")) and not guest.running(vmid):
            try:
                _start(Parsed([str(vmid)], {}, []))
            except PctError as error:
                store.warn(f"starting CT {vmid} failed: {error.text}")


def _usage(name: str, *options: str, positions: tuple[str, ...] = _VMID, switches: Sequence[str] = ()) -> Usage:
    words = " ".join(f"<{position}>" for position in positions)
    taken = dict.fromkeys(options, False) | dict.fromkeys(switches, True)
    line = f"pct {name} {words}".rstrip() + (" [OPTIONS]" if taken else "")
    return Usage(name, positions, line, taken)


_COMMANDS: dict[str, tuple[Usage, Callable[[Parsed], None]]] = {
    "create": (_CREATE, _create),
    "set": (_SET, _set),
    "config": (_usage("config", "snapshot", switches=["current"]), _config),
    "pending": (_usage("pending"), lambda parsed: _say(show.pending(_id(parsed)))),
    "list": (_usage("list", positions=()), lambda _: _say(show.listing())),
    "status": (
        _usage("status", switches=["verbose"]),
        lambda parsed: _say(show.status(_id(parsed), properties.is_true(parsed.options.get("verbose")))),
    ),
    "start": (_usage("start", switches=["skiplock", "debug"]), _start),
    "stop": (_usage("stop", switches=["skiplock", "overrule-shutdown"]), _stop),
    "shutdown": (_usage("shutdown", "timeout", switches=["forceStop"]), _shutdown),
    "reboot": (_usage("reboot", "timeout"), _reboot),
    "exec": (
        Usage("exec", _VMID, "pct exec <vmid> [<extra-args>] [OPTIONS]", {"keep-env": True}, rest=True),
        lambda parsed: inside.execute(_id(parsed), parsed.rest),
    ),
    "push": (
        _usage("push", "user", "group", "perms", positions=("vmid", "file", "destination")),
        _push,
    ),
    "destroy": (_usage("destroy", switches=["force", "purge", "destroy-unreferenced-disks"]), _destroy),
    "unlock": (_usage("unlock"), lambda parsed: change.unlock(_id(parsed))),
    "sandbox-startall": (_usage("sandbox-startall", positions=()), _start_all),
}
_SMALL_CHECKS: dict[str, Callable[[str], None]] = {
    "timeout": properties.integer(0),
    "perms": properties.pattern(r"0?[0-7]{3}"),
    "user": properties.integer(0),
    "group": properties.integer(0),
    **dict.fromkeys(("verbose", "current", "skiplock", "forceStop", "force", "purge"), properties.boolean),
}


def main(argv: Sequence[str]) -> int:
    """Run one command line (without the program's name) and return its exit code."""
    if not argv:
        print("ERROR: no command specified\n\nUSAGE: pct <COMMAND> [ARGS] [OPTIONS]", file=sys.stderr)
        return DIED
    name, *rest = argv
    if name in _NOT_HERE:
        print(f"SIMULATED pct: '{name}' is not implemented in the sandbox", file=sys.stderr)
        return DIED
    if name not in _COMMANDS:
        print(f"ERROR: unknown command 'pct {name}'\nUSAGE: pct <COMMAND> [ARGS] [OPTIONS]", file=sys.stderr)
        return DIED
    usage, command = _COMMANDS[name]
    try:
        parsed = parse(usage, rest)
        check(usage, parsed, _SMALL_CHECKS)
        command(parsed)
    except PctError as error:
        print(error.text, file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"unable to {name}: {error.strerror or error}: {error.filename or 'no file'}", file=sys.stderr)
        return DIED
    return 0


def _id(parsed: Parsed) -> int:
    return int(parsed.positions[0])


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
