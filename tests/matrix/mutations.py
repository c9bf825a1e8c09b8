"""What people and releases do to a function: small files, and whether a patch must still cope with each."""

from __future__ import annotations

from .gate_mutations import gate
from .guard_mutations import guard
from .layout_mutations import encoding, layout, moves, surroundings
from .making import EASY, Maker, Mutation
from .subjects import GATE, Subject

__all__ = ["EASY", "Mutation", "mutations"]


def mutations(subject: Subject) -> list[Mutation]:
    """At least 40 for every subject, each different from the function as released."""
    maker = Maker(subject)
    for make in (layout, encoding, moves, surroundings, gate if subject.patch == GATE else guard):
        make(maker)
    return maker.made
