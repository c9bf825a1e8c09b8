import json

import pytest

from blackstart.errors import InputError
from blackstart.machine import Machine, Value
from blackstart.paths import ROLES
from blackstart.variables import read_defaults, resolve
from roles.server import profile as profiles
from roles.server import state as server
from roles.server.state import Variables

from . import unitfile

PROFILE = """\
description: for tests
date: 2026-11-29
model: lab/model
releases: ["0.5.9"]
gpus: {kind: Some GPU, count: 2}
patches: [sm120-autotune, nsa-guard]
flags:
  model-path: lab/model
  served-model-name: a-model
  tp-size: 2
  trust-remote-code: true
  model-loader-extra-config: {enable_multithread_load: true, num_threads: 16}
  port: 30000
environment:
  NCCL_P2P_LEVEL: SYS
  ODD: 'a "b" $HOME 100%'
"""


@pytest.fixture(autouse=True)
def profile(tmp_path, monkeypatch):
    """A folder of profiles with one in it, under the name `test`."""
    (tmp_path / "test.yml").write_text(PROFILE)
    read = profiles.read
    monkeypatch.setattr(profiles, "read", lambda name: read(name, tmp_path))
    return tmp_path / "test.yml"


def variables(**given):
    values = {"server_profile": "test", **given}
    machine = Machine("glm5", ("all",), {name: Value(value, "here") for name, value in values.items()}, "here")
    return resolve(machine, read_defaults(ROLES), Variables)


def test_the_command_is_the_profiles_with_the_places_flags():
    assert variables(server_flags={"model-path": "/srv/m", "trust-remote-code": None}).argv() == [
        "/root/ml-env/bin/python",
        "-m",
        "sglang.launch_server",
        "--model-path",
        "/srv/m",
        "--served-model-name",
        "a-model",
        "--tp-size",
        "2",
        "--model-loader-extra-config",
        '{"enable_multithread_load": true, "num_threads": 16}',
        "--port",
        "30000",
    ]


SNAPSHOT = """\
# Written by blackstart from profile test; the next `inv up` restores it.
[Unit]
X-Blackstart-Profile=test
Description=SGLang, profile test
After=network.target
StartLimitIntervalSec=0

[Service]
Type=exec
WorkingDirectory=/root
Environment=NCCL_P2P_LEVEL=SYS
Environment="ODD=a \\"b\\" $HOME 100%%"
# Refuses a source that a reinstall has wiped the required patches from.
ExecStartPre=/usr/bin/python3 -IS /opt/blackstart/patch-gate "/root/ml-env/lib/python3*/site-packages" \
"inv patch.apply --limit glm5" sm120-autotune nsa-guard
ExecStart=/root/ml-env/bin/python -m sglang.launch_server --model-path lab/model --served-model-name a-model \
--tp-size 2 --trust-remote-code --model-loader-extra-config \
"{\\"enable_multithread_load\\": true, \\"num_threads\\": 16}" --port 30000
# SIGTERM goes to the engine alone, which drains and takes its children along; what is left then is killed.
KillMode=mixed
TimeoutStopSec=300
# Releases up to 0.5.18 end a clean stop by killing themselves.
SuccessExitStatus=SIGKILL
LimitMEMLOCK=infinity
LimitNOFILE=1048576
LimitSTACK=67108864

[Install]
WantedBy=multi-user.target
"""


def test_the_unit_file():
    assert server.unit_text(variables()) == SNAPSHOT


def test_systemd_reads_the_unit_file_as_it_is_meant():
    text = server.unit_text(variables())
    line = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert unitfile.parsed_by_rules(line.removeprefix("ExecStart=")) == variables().argv()
    if unitfile.installed():
        argv, environment = unitfile.parsed_by_systemd(text)
        assert argv == variables().argv()
        assert environment == {"NCCL_P2P_LEVEL": "SYS", "ODD": 'a "b" $HOME 100%'}


def test_without_required_patches_there_is_no_gate(profile):
    profile.write_text(PROFILE.replace("patches: [sm120-autotune, nsa-guard]", "patches: []"))
    assert "ExecStartPre" not in server.unit_text(variables())


def test_limits_may_be_none_at_all():
    assert "Limit" not in server.unit_text(variables(server_limits={})).replace("StartLimitIntervalSec", "")


def test_a_unit_file_tells_which_profile_it_was_written_from():
    assert server.profile_of(server.unit_text(variables())) == "test"
    assert server.profile_of("[Unit]\nDescription=x\n") is None


def test_the_unit_is_written_enabled_and_started_and_its_change_owes_a_restart():
    state = server.state(variables(), [None])
    unit_file, unit = state.resources
    assert unit_file.spec["path"] == "/etc/systemd/system/sglang.service"
    assert unit_file.notify == ("restart sglang.service",)
    assert unit.spec == {"unit": "sglang.service", "enabled": True, "running": True}
    assert state.handlers["restart sglang.service"].unit == "sglang.service"


def test_afterwards_the_engine_is_ready_and_completes_a_prompt():
    ready, completion = server.state(variables(), [None]).verify
    assert ready.spec["url"] == "http://127.0.0.1:30000/health" and ready.spec["deadline"] == 5400
    assert ready.spec["unit"] == completion.spec["unit"] == "sglang.service"
    assert completion.name == server.COMPLETION
    assert completion.spec["body"]["model"] == "a-model"
    assert completion.spec["body"]["prompt"] == "Count from 1 to 10:"
    json.dumps(completion.spec)


def test_the_port_is_the_profiles_or_sglangs_own_default(profile):
    assert variables().port() == 30000
    assert variables(server_flags={"port": 31000}).url("/x") == "http://127.0.0.1:31000/x"
    assert variables(server_flags={"port": None}).port() == 30000


@pytest.mark.parametrize("port", [0, 65536, -1, "30000", True, 1.5, [1]])
def test_a_port_is_a_number(port):
    with pytest.raises(InputError, match="port is a number from 1 to 65535"):
        variables(server_flags={"port": port}).port()


@pytest.mark.parametrize(
    ("flags", "model"),
    [
        ({}, "a-model"),
        ({"served-model-name": None}, "lab/model"),
        ({"served-model-name": None, "model-path": None}, "default"),
    ],
)
def test_the_model_is_asked_for_by_the_name_it_is_served_under(flags, model):
    assert variables(server_flags=flags).served_model() == model


def test_the_question_is_who_listens_on_the_port():
    assert server.probes(variables()) == [{"probe": "listener", "port": 30000}]


def holder(unit, name="nginx"):
    return {"pid": 7, "name": name, "unit": unit}


def test_a_port_that_the_engine_itself_holds_is_no_conflict():
    assert server.state(variables(), [holder("sglang.service")])


@pytest.mark.parametrize(
    ("unit", "found"), [("nginx.service", "nginx (pid 7, unit nginx.service)"), ("", "nginx (pid 7)")]
)
def test_a_port_in_use_by_another_process_is_refused_with_its_name(unit, found):
    with pytest.raises(InputError, match="port 30000 is in use by another process") as caught:
        server.state(variables(), [holder(unit)])
    assert caught.value.found == found and "--set" in caught.value.remedy


def test_an_unknown_profile_is_refused_before_anything_is_planned():
    with pytest.raises(InputError, match="there is no profile 'none'"):
        server.state(variables(server_profile="none"), [None])


@pytest.mark.parametrize(
    "wrong",
    [
        {"server_unit": "sglang"},
        {"server_unit": "../x.service"},
        {"server_profile": None},
        {"server_flags": []},
        {"server_ready_deadline_s": 0},
        {"server_stop_timeout_s": "soon"},
        {"server_limits": {"NOFILE": 5}},
    ],
)
def test_wrong_values_are_input_errors(wrong):
    with pytest.raises(InputError) as caught:
        variables(**wrong)
    assert caught.value.where == "here"
