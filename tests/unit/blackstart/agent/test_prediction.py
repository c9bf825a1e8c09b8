"""What a check predicts is what a run then does: random plans over random half-made trees.

A failure shows the seed, and the smallest tree and plan that hypothesis found for it.
"""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import hypothesis
import pytest
from hypothesis import note
from hypothesis import strategies as st

from blackstart.resources import absent, directory, file, lines, link

from .machine import Machine, tree

# Few names, so that resources meet; a path may pass through a link, a file or nothing at all.
NAMES = ("a", "b", "c")
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
MODES = st.sampled_from(("0755", "0700", "0644"))
OWNERS = st.sampled_from(("root", "daemon"))
TEXTS = st.sampled_from(("", "one\n", "two\nthree\n", "one\ntwo\n", "no newline"))
LINES = st.lists(st.sampled_from(("one", "two", "three")), max_size=3)
TARGETS = st.one_of(PATHS, PATHS.map(lambda path: "../" + path), st.just("{land}/a"), st.just("."))

# Half-made trees: what stands there before, in the order in which it is put there; what does not fit is left out.
THINGS = st.lists(
    st.one_of(
        st.tuples(st.just("directory"), PATHS, MODES, OWNERS),
        st.tuples(st.just("file"), PATHS, TEXTS, MODES, OWNERS),
        st.tuples(st.just("link"), PATHS, TARGETS),
        st.tuples(st.just("fifo"), PATHS),
    ),
    max_size=8,
)

WISHES = st.lists(
    st.one_of(
        st.tuples(st.just("directory"), PATHS, MODES, OWNERS, OWNERS),
        st.tuples(st.just("file"), PATHS, TEXTS, MODES, OWNERS, OWNERS),
        st.tuples(st.just("link"), PATHS, TARGETS),
        st.tuples(st.just("lines"), PATHS, LINES, MODES, st.sampled_from(("", "tw"))),
        st.tuples(st.just("absent"), PATHS, st.booleans()),
    ),
    min_size=1,
    max_size=12,
)


def make(land, thing):
    kind, path, *rest = thing
    place = land / path
    with contextlib.suppress(OSError):
        if kind == "directory":
            place.mkdir()
        elif kind == "fifo":
            os.mkfifo(place)
        elif kind == "link":
            place.symlink_to(rest[0].format(land=land))
        else:
            with place.open("x") as stream:
                stream.write(rest[0])
        if kind in ("directory", "file"):
            shutil.chown(place, rest[-1])
            place.chmod(int(rest[-2], 8))


def resource(land, wish):
    kind, path, *rest = wish
    place = f"{land}/{path}"
    if kind == "directory":
        mode, owner, group = rest
        return directory(place, mode=mode, owner=owner, group=group)
    if kind == "file":
        content, mode, owner, group = rest
        return file(place, content, mode=mode, owner=owner, group=group)
    if kind == "link":
        return link(place, rest[0].format(land=land))
    if kind == "lines":
        wanted, mode, before = rest
        return lines(place, wanted, mode=mode, before=before)
    return absent(place, recursive=rest[0])


@contextlib.contextmanager
def half_made(things):
    # In memory, where there is such a folder: every write is fsynced, and thousands of them are made.
    root = Path(tempfile.mkdtemp(prefix="prediction-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        land = root / "land"
        land.mkdir()
        for thing in things:
            make(land, thing)
        yield Machine(root), land
    finally:
        shutil.rmtree(root)


def possible(machine, plan):
    """The plan without what cannot be: a failure would end it, and what follows would never be tried."""
    while "failed" in (states := machine.check(*plan)):
        del plan[states.index("failed")]
    return plan


def fits(wishes):
    """A line that begins with the mark that it is to stand before can never stand there."""
    return not any(wish[0] == "lines" and wish[4] and "two" in wish[2] for wish in wishes)


@pytest.fixture(params=[50, pytest.param(5000, marks=pytest.mark.soak)])
def for_random_plans(request, seed):
    """Runs a function on many random trees and plans."""

    def for_random_plans(holds):
        given = hypothesis.given(things=THINGS, wishes=WISHES.filter(fits))
        checks = hypothesis.HealthCheck
        settings = hypothesis.settings(
            max_examples=request.param,
            deadline=None,
            database=None,
            suppress_health_check=[checks.too_slow, checks.nested_given, checks.function_scoped_fixture],
        )
        settings(hypothesis.seed(seed)(given(holds)))()

    return for_random_plans


def as_predicted(states):
    return [state.replace("changed", "change") for state in states]


def shown(machine, what, states):
    reasons = [event.get("diff") or event.get("detail") for event in machine.done]
    note(f"{what} {list(zip(states, reasons, strict=True))}")


def test_a_check_predicts_exactly_what_a_run_changes_and_where_it_fails(for_random_plans):
    def holds(things, wishes):
        with half_made(things) as (machine, land):
            plan = [resource(land, wish) for wish in wishes]
            before = tree(land)
            predicted = machine.check(*plan)
            shown(machine, "predicted", predicted)
            assert tree(land) == before, "the check touched the tree"
            assert not machine.state.exists(), "the check left something behind"
            done = machine.apply(*plan)
            shown(machine, "done", done)
            assert as_predicted(done) == predicted

    for_random_plans(holds)


def test_a_long_plan_is_predicted_to_its_end(for_random_plans):
    def holds(things, wishes):
        with half_made(things) as (machine, land):
            plan = possible(machine, [resource(land, wish) for wish in wishes])
            note(f"plan {[item.name for item in plan]}")
            predicted = machine.check(*plan)
            shown(machine, "predicted", predicted)
            done = machine.apply(*plan)
            shown(machine, "done", done)
            assert as_predicted(done) == predicted

    for_random_plans(holds)


def test_a_second_run_changes_nothing(for_random_plans):
    """Of wishes for one place only the last can hold: a plan keeps that, and no two wishes undo each other."""

    def holds(things, wishes):
        last = {wish[1]: wish for wish in wishes}
        wishes = [wish for wish in wishes if last[wish[1]] is wish]
        with half_made(things) as (machine, land):
            plan = possible(machine, [resource(land, wish) for wish in wishes])
            hypothesis.assume(not saws_off_its_branch(land, wishes))
            first = machine.apply(*plan)
            shown(machine, "first", first)
            hypothesis.assume(not undo_each_other(land, wishes))
            after = tree(land)
            second = machine.apply(*plan)
            shown(machine, "second", second)
            assert set(second) <= {"ok"}
            assert tree(land) == after

    for_random_plans(holds)


def saws_off_its_branch(land, wishes):
    """Whether what turns or goes lies behind a link, which may be itself: `a/a` where `a -> .`."""
    turned = {wish[1] for wish in wishes if wish[0] in ("absent", "link")}
    return any(os.path.realpath((land / name).parent) != str((land / name).parent) for name in turned)


def undo_each_other(land, wishes):
    """Whether two wishes may mean one place: by way of a link, or because one place lies within another that goes."""
    names = {wish[1] for wish in wishes}
    through_a_link = any(os.path.realpath(land / name) != str(land / name) for name in names)
    turned = {wish[1] for wish in wishes if wish[0] in ("absent", "link")}
    return through_a_link or any(name.startswith(path + "/") for path in turned for name in names)
