import pytest
from pydantic import BaseModel, Field

from blackstart.errors import InputError
from blackstart.machine import Machine, Value
from blackstart.paths import ROLES
from blackstart.variables import read_defaults, resolve


class Variables(BaseModel):
    web_port: int = Field(ge=1)
    web_hosts: list[str] = []
    inventory_hostname: str


def machine(**variables):
    values = {name: Value(value, f"hosts.yml:{n}") for n, (name, value) in enumerate(variables.items(), 10)}
    return Machine("box", ("all",), values, "hosts.yml:3")


DEFAULTS = {"web_port": Value(80, "defaults.yml:1"), "web_hosts": Value([], "defaults.yml:2")}


def test_defaults_hold_until_the_machine_says_otherwise():
    assert resolve(machine(), DEFAULTS, Variables).web_port == 80
    assert resolve(machine(web_port=8080), DEFAULTS, Variables).web_port == 8080


def test_the_machines_name_is_a_variable():
    assert resolve(machine(), DEFAULTS, Variables).inventory_hostname == "box"


def test_a_model_sees_only_what_it_asks_for():
    resolved = resolve(machine(other="x", web_port=1), DEFAULTS, Variables)
    assert set(resolved.model_fields_set) == {"web_port", "web_hosts", "inventory_hostname"}


@pytest.mark.parametrize(
    ("variables", "defaults", "where", "says"),
    [
        ({"web_port": 0}, DEFAULTS, "hosts.yml:10", "web_port: input should be greater"),
        ({"web_port": "x"}, DEFAULTS, "hosts.yml:10", "web_port: input should be a valid integer"),
        ({"web_hosts": ["a", 5]}, DEFAULTS, "hosts.yml:10", r"web_hosts\.1: input should be a valid string"),
        ({}, {"web_port": Value(None, "defaults.yml:1")}, "defaults.yml:1", "web_port: input should be"),
        ({}, {}, "hosts.yml:3", "web_port: field required"),
    ],
)
def test_a_wrong_value_is_an_error_at_the_place_that_set_it(variables, defaults, where, says):
    with pytest.raises(InputError, match=says) as caught:
        resolve(machine(**variables), defaults, Variables)
    assert caught.value.where == where


def test_an_error_shows_what_was_found_shortly():
    with pytest.raises(InputError) as caught:
        resolve(machine(web_port="x" * 500), DEFAULTS, Variables)
    assert len(caught.value.found) == 100


def write(folder, role, text):
    (folder / role).mkdir()
    (folder / role / "defaults.yml").write_text(text)


def test_defaults_are_collected_from_all_roles_with_their_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "web", "web_port: 80\n# more\nweb_hosts: []\n")
    write(tmp_path, "db", "db_port: 5432\n")
    write(tmp_path, "empty", "# nothing yet\n")
    assert read_defaults(tmp_path) == {
        "web_port": Value(80, "web/defaults.yml:1"),
        "web_hosts": Value([], "web/defaults.yml:3"),
        "db_port": Value(5432, "db/defaults.yml:1"),
    }


def test_a_roles_variables_begin_with_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "web", "web_port: 80\nport: 80\n")
    with pytest.raises(InputError, match="begins with web_") as caught:
        read_defaults(tmp_path)
    assert (caught.value.where, caught.value.found) == ("web/defaults.yml:2", "port")


@pytest.mark.parametrize("text", ["[web_port]", "web_port", "5"])
def test_defaults_are_a_mapping(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "web", text)
    with pytest.raises(InputError, match="a mapping belongs here") as caught:
        read_defaults(tmp_path)
    assert caught.value.where == "web/defaults.yml:1"


def test_the_projects_own_defaults_are_whole():
    """Every role's variable model is fed by a defaults.yml; a variable without a default there cannot be set at all."""
    from roles.bench import state as bench
    from roles.container import state as container
    from roles.ml_env import state as ml_env
    from roles.server import state as server

    declared = set(read_defaults(ROLES)) | {"inventory_hostname", "inventory_simulated"}
    for model in (bench.Variables, container.Variables, ml_env.Variables, server.Variables):
        assert set(model.model_fields) <= declared
