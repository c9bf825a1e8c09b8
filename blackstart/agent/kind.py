"""What every kind of resource is: a check that only reads the World, an apply that acts, a predict for check mode."""

from typing import Any, Callable, Dict, NamedTuple, Optional

from .store import Store
from .world import World


class Refused(Exception):
    """The machine is in a state that must not be changed, or a change failed. Carries what to do next.

    `passing` says that the same may well succeed a little later: a lock that is held, a mirror that is ill.
    """

    def __init__(self, message: str, remedy: str = "", passing: bool = False) -> None:
        Exception.__init__(self, message)
        self.message = message
        self.remedy = remedy
        self.passing = passing


class Detached(Exception):
    """The controller went away while something was waited for; a job that was attached to goes on."""


class Verdict(NamedTuple):
    """`changes` says whether apply would act; `diff` and `detail` are for people."""

    changes: bool
    diff: str = ""
    detail: str = ""


class Context(NamedTuple):
    """What a resource works with. `say` passes on a line of a running program; `gone` tells that nobody listens."""

    world: World
    store: Store
    say: Callable[[str], None]
    gone: Callable[[], bool]
    applying: bool


class Kind:
    """One resource of a plan. `spec` is the resource as data, as the controller sent it."""

    verifies = False
    """True for what changes nothing and only waits for something to be true."""

    def __init__(self, spec: Dict[str, Any], context: Context) -> None:
        self.spec = spec
        self.context = context
        self.world = context.world

    @property
    def name(self) -> str:
        name: str = self.spec["name"]
        return name

    def check(self) -> Verdict:
        """Whether the desired state holds. Raises Unknown (check mode only) and Refused."""
        raise NotImplementedError

    def apply(self) -> Optional[str]:
        """Bring the desired state about; returns a detail for people. Raises Refused."""
        raise NotImplementedError

    def predict(self) -> None:
        """Check mode: put into the World what apply would have made."""
        raise NotImplementedError
