"""A mutation, and the making of many of one subject."""

from __future__ import annotations

from dataclasses import dataclass, field

from .subjects import Subject

EASY = "easy"  # the state must be that of the unmutated function
HARD = "hard"  # drifted is an honest answer as well


@dataclass(frozen=True)
class Mutation:
    name: str
    files: dict[str, bytes]  # path -> content; the function stands in one of them
    home: str  # the path of that file
    kind: str = HARD
    function: str = ""  # its name, where the mutation changed it


@dataclass
class Maker:
    subject: Subject
    made: list[Mutation] = field(default_factory=list)

    def file(self, name: str, content: str | bytes, kind: str = HARD, function: str = "") -> None:
        raw = content.encode() if isinstance(content, str) else content
        self.files(name, {self.subject.path: raw}, self.subject.path, kind, function)

    def files(self, name: str, files: dict[str, bytes], home: str, kind: str = HARD, function: str = "") -> None:
        if files != {self.subject.path: self.subject.text.encode()}:
            self.made.append(Mutation(name, files, home, kind, function or self.subject.name))

    def function(self, name: str, function: str, kind: str = HARD) -> None:
        if function != self.subject.function:
            self.file(name, self.subject.with_function(function), kind)
