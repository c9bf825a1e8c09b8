"""The agent's life: requests come in on stdin until the controller closes it; each is answered with events."""

import os
import sys
from typing import Any, Dict

from .converge import Run, facts_digest
from .kind import Refused
from .probes import probe
from .store import STATE, Damaged, Held, Store
from .wire import Wire
from .world import World


def serve(source: int, sink: int) -> None:
    """Answer requests until stdin ends. Each answer is a series of events that closes with `end`."""
    wire = Wire(source, sink)
    wire.start_heartbeat()
    store = None
    while not wire.gone:
        request = wire.read_request()
        if request is None:
            return
        if store is None:
            store = Store(request.get("state", STATE), request["controller"])
        try:
            OPERATIONS[request["op"]](request, wire, store)
        except Held as held:
            wire.emit("held", holder=held.holder)
        except OSError as error:
            wire.emit("broken", message="a file on the machine cannot be read or written", found=str(error), remedy="")
        except (Damaged, Refused) as error:
            wire.emit("broken", message=error.message, found="", remedy=error.remedy)
        except Exception:  # noqa: BLE001  the last line of defence: the controller must hear of a fault of ours
            import traceback  # here, because a run without faults never needs it

            wire.emit("fault", trace=traceback.format_exc())
        wire.emit("end")


def _probe(request: Dict[str, Any], wire: Wire, store: Store) -> None:
    """Answers to groups of questions, each group with its digest."""
    world = World(empty=request.get("empty", False))
    for name, questions in request["groups"].items():
        answers = [probe(world, question) for question in questions]
        wire.emit("facts", group=name, answers=answers, digest=facts_digest(answers))


def _converge(request: Dict[str, Any], wire: Wire, store: Store) -> None:
    Run(request["plan"], wire, store).execute()


OPERATIONS = {"probe": _probe, "converge": _converge}


def main() -> None:
    # What a program started by us prints must never end up in the protocol.
    sink = os.dup(1)
    os.dup2(2, 1)
    os.write(sink, b"\n")  # a start file of the login shell may have left a line open
    os.umask(0o022)
    sys.setrecursionlimit(2000)
    serve(0, sink)
    # Nothing is left to put in order, and the interpreter takes longer over its own end than over a check.
    os._exit(0)
