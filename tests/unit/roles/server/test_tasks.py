from types import SimpleNamespace

import pytest

from blackstart.errors import CheckError
from roles.server import tasks


def test_a_log_that_cannot_be_read_is_no_empty_log(monkeypatch):
    refused = {"status": 1, "output": "No journal files were opened due to insufficient permissions.\n"}
    monkeypatch.setattr(tasks, "_variables", lambda fleet, machine: SimpleNamespace(server_unit="sglang.service"))
    monkeypatch.setattr(tasks, "_facts", lambda fleet, machine, questions: [refused])
    with pytest.raises(CheckError, match="cannot be read") as caught:
        tasks._logs(None, SimpleNamespace(name="glm5"), 50)
    assert caught.value.found == refused["output"].strip()
