"""A role that uses a secret in every way there is, and prints it wherever a careless program would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from blackstart import resources
from blackstart.plan import Facts, Probe, Role, State
from blackstart.secrets import reveal

HOLDERS = ("/srv/secret/token", "/srv/secret/careless")
"""The files that are meant to hold it."""

SHOUTS = 'token=$(cat); echo "the token is $token"; echo "and on stderr $token" >&2; test -n "$token"'
FAILS = 'token=$(cat); echo "refused: $token" >&2; exit 3'
JOB = 'test -n "$(cat "$CREDENTIALS_DIRECTORY/token")" && touch "$1.begun" && until [ -e "$1" ]; do sleep 0.02; done'


class Variables(BaseModel):
    inventory_hostname: str
    secretive_token: dict[str, Any]
    secretive_fails: bool
    secretive_gate: str


def defaults() -> dict[str, object]:
    """As roles/*/defaults.yml would declare them."""
    return {"secretive_token": None, "secretive_fails": False, "secretive_gate": "/run/gate"}


def probes(variables: Variables) -> Sequence[Probe]:
    return [{"probe": "run", "argv": ["cat", "/srv/secret/careless"]}]


def state(variables: Variables, facts: Facts) -> State:
    token = reveal(variables.secretive_token, "secretive_token")
    begin = [
        resources.directory("/srv/secret", mode="0700"),
        resources.file("/srv/secret/token", f"token = {token}\n", mode="0600", secret=True),
        # Nobody said that this one is secret; what is shown of it is masked all the same.
        resources.file("/srv/secret/careless", f"token = {token}\n", mode="0600"),
        resources.command("fed", ["sh", "-ec", SHOUTS], stdin=token, capture=True),
        resources.job("uses it", ["sh", "-ec", JOB, "sh", variables.secretive_gate], credentials={"token": token}),
    ]
    fails = resources.command("fails", ["sh", "-c", FAILS], stdin=token, remedy=f"not with {token}")
    return State([*begin, fails] if variables.secretive_fails else begin)


ROLE: Role[Variables] = Role("secretive", lambda: Variables, probes, state)
