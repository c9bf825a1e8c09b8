"""The environment of a lock is there, whole, and the link names it."""

from __future__ import annotations

from pydantic import BaseModel, Field

from blackstart import resources
from blackstart.errors import InputError
from blackstart.plan import Facts, Probe, State
from blackstart.render import render

from . import lock as locks

SANDBOX = "-sandbox"
TOOLS = "/opt/blackstart"


class Variables(BaseModel):
    """roles/ml_env/defaults.yml, which says what each means."""

    ml_env_root: str = Field(pattern="^/")
    ml_env_link: str = Field(pattern="^/")
    ml_env_lock: str
    inventory_simulated: bool
    ml_env_uv_lock: str
    ml_env_wheelhouse: str = Field(pattern="^/")
    ml_env_python: str = Field(pattern="^/")

    def environment(self) -> str:
        """The folder of the environment that the lock names."""
        return f"{self.ml_env_root}/{locks.read(self.ml_env_lock).identity}"


def probes(variables: Variables) -> list[Probe]:
    return []


def _require_own_lock(variables: Variables) -> None:
    if variables.ml_env_lock.endswith(SANDBOX) and not variables.inventory_simulated:
        raise InputError(
            "the sandbox's lock has no GPU packages, and is for the sandbox alone",
            where="ml_env_lock",
            found=variables.ml_env_lock,
            remedy='make one for this host: docs/inventory.md, "The lock"',
        )


def state(variables: Variables, facts: Facts) -> State:
    """Raises InputError for a lock that is not there, not whole, or not one of uv."""
    _require_own_lock(variables)
    lock, uv = locks.read(variables.ml_env_lock), locks.read(variables.ml_env_uv_lock)
    environment = f"{variables.ml_env_root}/{lock.identity}"
    lock_file = f"{variables.ml_env_root}/{lock.identity}.lock.txt"
    if "uv" not in uv.versions:
        raise InputError("this lock names no uv", where="ml_env_uv_lock", found=variables.ml_env_uv_lock)
    uv_version = uv.versions["uv"]
    tool = f"{TOOLS}/uv-{uv_version}"
    uv_binary = f"{tool}/uv-{uv_version}.data/scripts/uv"
    marker = f"{environment}/.complete"
    script = f"{variables.ml_env_root}/{lock.identity}.build.sh"
    text = render(
        "ml_env/build.sh.j2",
        uv=uv_binary,
        python=variables.ml_env_python,
        environment=environment,
        lock_file=lock_file,
        wheelhouse=variables.ml_env_wheelhouse,
        marker=marker,
    )
    build = resources.job(
        f"environment {lock.identity}",
        ["sh", "-e", script],
        creates=marker,
        provides=[environment],
        remedy="if a wheel is missing, fill the wheelhouse again; the next run builds from the start",
    )
    return State(
        [
            resources.directory(TOOLS),
            resources.archive(
                tool,
                f"{variables.ml_env_wheelhouse}/uv-{uv_version}-*.whl",
                uv.hashes["uv"],
                provides=[uv_binary],
                remedy="fill the wheelhouse, or see that it is mounted into the container",
            ),
            resources.directory(variables.ml_env_root),
            resources.file(lock_file, lock.text),
            resources.file(script, text, mode="0755"),
            build,
            resources.link(variables.ml_env_link, environment),
        ]
    )
