from blackstart.errors import ConnectError
from blackstart.report import MachineReport, Record


def report(*states, **fields):
    return MachineReport("box", [Record("web", f"r{n}", state) for n, state in enumerate(states)], **fields)


def test_what_was_verified_counts_as_ok():
    document = report("ok", "verified", "changed", "pending", "ok").as_dict()
    assert (document["ok"], document["changed"], document["failed"]) == (3, 1, 0)
    assert document["pending"] == ["r3"]


def test_a_check_counts_changes_and_unknowns():
    document = report("change", "unknown", "unknown").as_dict()
    assert (document["change"], document["unknown"], document["changed"]) == (1, 2, 0)


def test_a_failed_resource_fails_the_machine():
    failed = report("changed", "failed")
    assert failed.failed and failed.failure is failed.records[1]
    assert failed.as_dict()["failed"] == 1


def test_an_error_between_resources_fails_the_machine_too():
    lost = report("ok", error=ConnectError("lost", where="box"))
    assert lost.failed and lost.failure is None
    assert lost.as_dict()["failed"] == 1
    assert lost.as_dict()["error"]["message"] == "lost"


def test_a_quiet_run_has_no_error_and_has_not_failed():
    quiet = report("ok")
    assert not quiet.failed
    assert "error" not in quiet.as_dict()


def test_records_show_what_they_have():
    assert Record("web", "r", "ok").as_dict() == {"role": "web", "name": "r", "state": "ok", "seconds": 0.0}
    full = Record("web", "r", "failed", "why", "- a\n+ b", "do this", 1.5, True).as_dict()
    assert set(full) == {"role", "name", "state", "detail", "diff", "remedy", "seconds", "verify"}


def test_seconds_are_rounded_to_milliseconds():
    assert report(seconds=1.23456, execs=2).as_dict()["seconds"] == 1.235
