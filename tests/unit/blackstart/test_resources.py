import json

import pytest

from blackstart import resources
from blackstart.agent.converge import KINDS

ONE_OF_EACH = [
    resources.directory("/d"),
    resources.file("/f", "text"),
    resources.tree("/d", owner="root", group="root"),
    resources.link("/l", "target"),
    resources.lines("/f", ["one"]),
    resources.absent("/a"),
    resources.packages("rsync"),
    resources.group("g"),
    resources.user("u", group="g"),
    resources.unit("a.service", running=True),
    resources.command("run", ["true"]),
    resources.job("long", ["true"]),
    resources.archive("/opt/x", "/srv/x.whl", ["0" * 64]),
    resources.fileset("set", [resources.Replacement("/f", b"new", None)]),
    resources.undecided("later", after="run", problem="still so"),
    resources.booted(deadline=1),
    resources.opens("open", ["/dev/null"]),
    resources.http("ready", "http://127.0.0.1/", deadline=1),
]


def test_the_agent_knows_exactly_the_kinds_that_can_be_declared():
    assert {resource.kind for resource in ONE_OF_EACH} == set(KINDS)


@pytest.mark.parametrize("resource", ONE_OF_EACH, ids=lambda resource: resource.kind)
def test_a_resource_travels_as_json_with_its_identity(resource):
    wire = resource.to_wire("box:role:0")
    assert json.loads(json.dumps(wire)) == wire
    assert wire["id"] == "box:role:0"
    assert wire["kind"] == resource.kind
    assert wire["name"] == resource.name
    assert wire["notify"] == []


def test_names_tell_people_what_is_meant():
    names = [resource.name for resource in ONE_OF_EACH[:7]]
    assert names == ["directory /d", "file /f", "tree /d", "link /l", "lines in /f", "absent /a", "packages rsync"]


def test_notify_travels_in_order():
    assert resources.file("/f", "", notify=("b", "a")).to_wire("x")["notify"] == ["b", "a"]


def test_a_files_wishes_may_be_left_to_the_file_system():
    spec = resources.file("/etc/pve/x", "", mode=None, owner=None, group=None).spec
    assert (spec["mode"], spec["owner"], spec["group"]) == (None, None, None)


@pytest.mark.parametrize("content", [b"plain", b"\xff\xfe not utf-8", b"", "naïve ü\n".encode(), b"\x00\x80"])
def test_a_file_sets_bytes_survive_the_journey(content):
    resource = resources.fileset("set", [resources.Replacement("/f", content, None, quiet=True)], stale=["/x/*"])
    (item,) = json.loads(json.dumps(resource.to_wire("x")))["files"]
    assert item["content"].encode("utf-8", "surrogateescape") == content
    assert (item["path"], item["replaces"], item["quiet"]) == ("/f", None, True)


def test_a_resource_is_a_value_that_equals_its_twin():
    assert resources.file("/f", "x") == resources.file("/f", "x")
    assert resources.file("/f", "x") != resources.file("/f", "y")


def test_changed_work_is_another_job():
    same = resources.job("build it", ["make", "-j2"])
    assert resources.job("build it", ["make", "-j2"]).spec["job"] == same.spec["job"]
    for other in (resources.job("build it", ["make"]), resources.job("build it", ["make", "-j2"], env={"A": "1"})):
        assert other.spec["job"] != same.spec["job"]


def test_a_jobs_name_is_fit_for_a_folder_and_a_unit():
    job = resources.job("Driver / build: ünïcode 580.95", ["true"]).spec["job"]
    assert job.startswith("driver-build-")
    assert set(job) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
