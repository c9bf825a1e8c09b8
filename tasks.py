"""The front door: `inv --list` shows what there is, `inv up` does the main job."""

from invoke.collection import Collection

from roles.bench import tasks as bench
from roles.fleet import tasks as fleet
from roles.fleet.up import up
from roles.patches import tasks as patches
from roles.self_test import tasks as self_test
from roles.server import tasks as server
from roles.stand_in import tasks as stand_in

namespace = Collection(
    up,
    fleet.exec_,
    fleet.journal,
    fleet.probe,
    self_test.test,
    self_test.lint,
    bench=Collection.from_module(bench),
    patch=Collection.from_module(patches),
    sandbox=Collection.from_module(stand_in),
    server=Collection.from_module(server),
)
