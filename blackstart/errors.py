"""One tree of errors, by stage. Each says what was being done, where, what was found, and what to do next."""

from __future__ import annotations


class BlackstartError(Exception):
    """Something a person has to act on. `code` is the exit code that the front door ends with."""

    code = 1
    stage = "run"

    def __init__(self, message: str, *, where: str = "", found: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.found = found
        self.remedy = remedy

    def as_dict(self) -> dict[str, str]:
        return {
            "stage": self.stage,
            "message": self.message,
            "where": self.where,
            "found": self.found,
            "remedy": self.remedy,
        }

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.message}" if self.where else self.message]
        if self.found:
            lines.append("  found: " + self.found.replace("\n", "\n         "))
        if self.remedy:
            lines.append(f"  do: {self.remedy}")
        return "\n".join(lines)


class InputError(BlackstartError):
    """What the person gave cannot be used; nothing was touched."""

    code = 2
    stage = "input"


class ConnectError(BlackstartError):
    """A machine could not be reached, or the connection was lost."""

    stage = "connect"


class CheckError(BlackstartError):
    """The state of a machine could not be read, or is one that must not be changed."""

    stage = "check"


class Interrupted(BlackstartError):
    """A person pressed Ctrl-C. What was in hand is finished on its machine; jobs go on."""

    code = 130

    def __init__(self, found: str = "") -> None:
        super().__init__("interrupted; each machine finishes the resource in hand and stops there", found=found)


class ApplyError(BlackstartError):
    """A change was tried and failed."""

    stage = "apply"


class VerifyError(BlackstartError):
    """Everything was applied, and what it should have brought about is not there."""

    stage = "verify"
