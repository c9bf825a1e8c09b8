"""Differences as people read them: unified text, capped; binary contents by size and hash."""

from .world import sha256

MAX_LINES = 200


def describe(path: str, before: "bytes | None", after: "bytes | None", secret: bool = False) -> str:
    """A unified diff of two contents; None stands for a file that is not there."""
    if secret:
        return "%s: content hidden" % path
    try:
        old, new = (before or b"").decode(), (after or b"").decode()
        if "\0" in old or "\0" in new:
            raise UnicodeDecodeError("utf-8", b"", 0, 0, "binary")
    except UnicodeDecodeError:
        return "%s: %s -> %s" % (path, _binary(before), _binary(after))
    import difflib  # here, because a run without changes never needs it

    lines = list(
        difflib.unified_diff(
            old.splitlines(),
            new.splitlines(),
            path if before is not None else "/dev/null",
            path if after is not None else "/dev/null",
            lineterm="",
        )
    )
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], "... %d more lines" % (len(lines) - MAX_LINES)]
    return "\n".join(lines)


def _binary(content: "bytes | None") -> str:
    return "absent" if content is None else "%d bytes sha256:%s" % (len(content), sha256(content)[:12])
