import pytest

from blackstart.errors import InputError
from blackstart.inventory import locate, parse_override, read

KNOWN = {"color", "size", "shape"}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write files of an inventory folder; the folder is the working directory, so places are short."""
    monkeypatch.chdir(tmp_path)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / "inv" / (name.replace("__", "/") + ".yml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "inv"

    return write


TREE = """\
all:
  vars: {color: all, size: all, shape: all}
  children:
    outer:
      vars: {color: outer, size: outer}
      children:
        inner:
          vars: {color: inner}
          hosts:
            one: {address: 192.0.2.1}
            two: {address: 192.0.2.2, color: host}
    apart:
      hosts:
        three: {local: true}
"""


def test_machines_keep_the_order_of_the_file_and_know_their_groups_weakest_first(write):
    inventory = read(write(hosts=TREE), KNOWN)
    assert list(inventory.machines) == ["one", "two", "three"]
    assert inventory.machines["one"].groups == ("all", "outer", "inner")
    assert inventory.machines["three"].groups == ("all", "apart")
    assert inventory.name == "inv" and inventory.simulated is False
    assert inventory.machines["two"].place == "inv/hosts.yml:11"


def test_what_an_editor_or_git_leaves_among_the_files_is_no_file_of_ours(write):
    path = write(hosts=TREE, group_vars__all="color: all file")
    for name in (".all.yml.swp", "all.yml~", ".gitkeep"):
        (path / "group_vars" / name).write_bytes(b"\x00no: [yaml")
    assert list(read(path, KNOWN).machines) == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("files", "overrides", "color"),
    [
        ({}, [], "inner"),
        ({"group_vars__all": "color: all file"}, [], "inner"),
        ({"group_vars__outer": "color: outer file"}, [], "inner"),
        ({"group_vars__inner": "color: inner file"}, [], "inner file"),
        ({"group_vars__inner": "color: inner file", "host_vars__one": "color: host file"}, [], "host file"),
        ({"host_vars__one": "color: host file"}, ["color=set"], "set"),
        ({}, ["color=first", "color=second"], "second"),
    ],
)
def test_the_nearer_source_wins(write, files, overrides, color):
    machine = read(write(hosts=TREE, **files), KNOWN, overrides).machines["one"]
    assert machine.get("color") == color


def test_each_variable_wins_for_itself(write):
    machine = read(write(hosts=TREE), KNOWN).machines["two"]
    assert {name: machine.get(name) for name in KNOWN} == {"color": "host", "size": "outer", "shape": "all"}
    assert machine.variables["color"].place == "inv/hosts.yml:11"
    assert machine.variables["shape"].place == "inv/hosts.yml:2"


def test_host_vars_win_over_the_hosts_own_line(write):
    machine = read(write(hosts=TREE, host_vars__two="color: file"), KNOWN).machines["two"]
    assert (machine.get("color"), machine.variables["color"].place) == ("file", "inv/host_vars/two.yml:1")


def test_groups_of_one_depth_win_by_name(write):
    hosts = """\
all:
  children:
    zeta: {vars: {color: zeta}, hosts: {one: {local: true}}}
    alpha: {vars: {color: alpha}, hosts: {one: }}
"""
    assert read(write(hosts=hosts), KNOWN).machines["one"].get("color") == "zeta"


def test_a_child_group_wins_over_its_parent_even_where_the_parent_sinks_later(write):
    """`zeta` is first seen at depth 1 with its child, and is a child of a child further down."""
    hosts = """\
all:
  children:
    zeta:
      vars: {color: parent}
      children:
        child: {vars: {color: child}, hosts: {one: {local: true}}}
    alpha:
      children:
        beta:
          children:
            zeta: {}
"""
    machine = read(write(hosts=hosts), KNOWN).machines["one"]
    assert machine.groups == ("all", "alpha", "beta", "zeta", "child")
    assert machine.get("color") == "child"


def test_a_host_in_two_groups_is_one_machine(write):
    hosts = "all: {children: {a: {hosts: {one: {local: true}}}, b: {hosts: {one: {color: red}}}}}"
    inventory = read(write(hosts=hosts), KNOWN)
    assert list(inventory.machines) == ["one"]
    assert inventory.machines["one"].groups == ("all", "a", "b")
    assert inventory.machines["one"].get("color") == "red"


def test_simulated_is_said_by_the_file(write):
    assert read(write(hosts="simulated: true\nall: {hosts: {one: {local: true}}}"), KNOWN).simulated is True


def test_an_empty_inventory_has_no_machines(write):
    assert read(write(hosts=""), KNOWN).machines == {}


@pytest.mark.parametrize(
    ("files", "where", "says"),
    [
        ({"hosts": "everything: {}"}, "inv/hosts.yml:1", "'everything' is not known here"),
        ({"hosts": "all:\n  host: {}"}, "inv/hosts.yml:2", "'host' is not known here"),
        ({"hosts": "all:\n  vars:\n    colour: red"}, "inv/hosts.yml:3", "no role has a variable 'colour'"),
        ({"hosts": "all:\n  hosts:\n    one: {colour: red}"}, "inv/hosts.yml:3", "no role has a variable"),
        ({"hosts": "all:\n  hosts: [one]"}, "inv/hosts.yml:2", "a mapping belongs here"),
        ({"hosts": "all:\n  hosts:\n    one: 5"}, "inv/hosts.yml:3", "a mapping belongs here"),
        ({"hosts": "all: []"}, "inv/hosts.yml:1", "a mapping belongs here"),
        ({"hosts": "[]"}, "inv/hosts.yml:1", "a mapping belongs here"),
        ({"hosts": "simulated: maybe"}, "inv/hosts.yml:1", "true or false"),
        ({"hosts": "all:\n  hosts:\n    one: {}"}, "inv/hosts.yml:3", "one has no address"),
        ({"hosts": "all: {hosts: {one: {port: '22'}}}"}, "inv/hosts.yml:1", "port is a number"),
        ({"hosts": "all: {hosts: {one: {port: true}}}"}, "inv/hosts.yml:1", "port is a number"),
        ({"hosts": "all: {hosts: {one: {address: 5}}}"}, "inv/hosts.yml:1", "address is a host name"),
        ({"hosts": "all: {hosts: {one: {port: 0}}}"}, "inv/hosts.yml:1", "port is a number from 1 to 65535"),
        ({"hosts": "all: {hosts: {one: {port: 65536}}}"}, "inv/hosts.yml:1", "port is a number from 1 to 65535"),
        ({"hosts": "all: {hosts: {one: {address: a..b}}}"}, "inv/hosts.yml:1", "address is a host name"),
        ({"hosts": f"all: {{hosts: {{one: {{address: {'x' * 64}}}}}}}"}, "inv/hosts.yml:1", "address is a host name"),
        ({"hosts": "all: {hosts: {one: {address: a b}}}"}, "inv/hosts.yml:1", "address is a host name"),
        ({"hosts": "all: {hosts: {one: {address: '[::1]'}}}"}, "inv/hosts.yml:1", "address is a host name"),
        ({"hosts": "all: {hosts: {one: {address: root@a}}}"}, "inv/hosts.yml:1", "address has a user in it"),
        ({"hosts": "all: {hosts: {one: {address: 'a:2222'}}}"}, "inv/hosts.yml:1", "address has a port in it"),
        ({"hosts": 'all: {hosts: {one: {address: "a\\0"}}}'}, "inv/hosts.yml:1", "address is a host name"),
        ({"hosts": "all: {hosts: {one: {local: true, python: python3}}}"}, "inv/hosts.yml:1", "an absolute path"),
        ({"hosts": 'all: {hosts: {one: {local: true, python: "/a\\0"}}}'}, "inv/hosts.yml:1", "an absolute path"),
        (
            {"hosts": 'all: {hosts: {one: {local: true, known_hosts: "a\\0"}}}'},
            "inv/hosts.yml:1",
            "known_hosts is a path",
        ),
        ({"hosts": "all: {hosts: {one: {local: 1}}}"}, "inv/hosts.yml:1", "local is true or false"),
        ({"hosts": "all: {hosts: {one: {through: two}}}"}, "inv/hosts.yml:1", "no machine 'two'"),
        ({"hosts": "all: {hosts: {one: {through: one}}}"}, "inv/hosts.yml:1", "itself reached through one"),
        (
            {"hosts": "all:\n  hosts:\n    a: {local: true}\n    b: {through: a}\n    c: {through: b}"},
            "inv/hosts.yml:5",
            "b is itself reached through a",
        ),
        ({"hosts": "all:\n  children:\n    a: {children: {b: {children: {a: }}}}"}, "inv/hosts.yml", "below itself"),
        ({"hosts": "all: {children: {all: }}"}, "inv/hosts.yml", "below itself"),
        ({"hosts": "all: {}", "group_vars__nobody": "color: 1"}, "inv/group_vars/nobody.yml", "no group 'nobody'"),
        ({"hosts": "all: {}", "host_vars__nobody": "color: 1"}, "inv/host_vars/nobody.yml", "no host 'nobody'"),
        ({"hosts": TREE, "group_vars__outer": "a: 1\ncolour: 1"}, "inv/group_vars/outer.yml:1", "no role has"),
        ({"hosts": TREE, "group_vars__outer": "[color]"}, "inv/group_vars/outer.yml:1", "a mapping belongs here"),
        ({"hosts": TREE, "group_vars__outer": "color: ]"}, "inv/group_vars/outer.yml:1", "not valid YAML"),
    ],
)
def test_bad_input_is_one_error_with_file_and_line(write, files, where, says):
    with pytest.raises(InputError, match=says) as caught:
        read(write(**files), KNOWN)
    assert caught.value.where == where
    assert caught.value.code == 2


@pytest.mark.parametrize("address", ["pve.example", "192.0.2.1", "::1", "fe80::1%eth0", "über.example", "a_b", "a."])
def test_names_and_addresses_of_all_kinds_are_addresses(write, address):
    inventory = read(write(hosts=f"all: {{hosts: {{one: {{address: '{address}'}}}}}}"), KNOWN)
    assert inventory.machines["one"].get("address") == address


@pytest.mark.parametrize(
    "given",
    [
        "hunter2",
        "12345",
        "{hunter2: A}",
        "{env: 5}",
        "{env: A, file: hunter2}",
        "[hunter2]",
        "{command: hunter2}",
        "{command: []}",
        "null",
    ],
)
def test_a_password_by_value_is_refused_and_not_shown(write, given):
    with pytest.raises(InputError, match="never by value") as caught:
        read(write(hosts=f"all:\n  hosts:\n    one: {{address: a, sudo_password: {given}}}"), KNOWN)
    assert caught.value.where == "inv/hosts.yml:3"
    assert "hunter2" not in str(caught.value) and "12345" not in str(caught.value)


@pytest.mark.parametrize("given", ["{env: A}", "{file: ~/a}", "{command: [pass, show, a]}"])
def test_a_password_by_reference_is_taken(write, given):
    read(write(hosts=f"all: {{hosts: {{one: {{address: a, sudo_password: {given}}}}}}}"), KNOWN)


def test_a_mistyped_variable_names_its_neighbours(write):
    with pytest.raises(InputError) as caught:
        read(write(hosts="all: {vars: {colr: red}}"), KNOWN)
    assert caught.value.found == "close: color"


def test_a_missing_hosts_file_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inv").mkdir()
    with pytest.raises(InputError) as caught:
        read(tmp_path / "inv", KNOWN)
    assert caught.value.where == "inv/hosts.yml"


@pytest.mark.parametrize("name", ["outer.txt", "outer.json", "outer"])
def test_only_yaml_belongs_beside_the_hosts(write, name):
    folder = write(hosts=TREE, group_vars__inner="color: 1")
    (folder / "group_vars" / name).write_text("color: 1")
    with pytest.raises(InputError, match="files belong here"):
        read(folder, KNOWN)


def test_a_group_has_one_file(write):
    folder = write(hosts=TREE, group_vars__inner="color: 1")
    (folder / "group_vars" / "inner.yaml").write_text("size: 1")
    with pytest.raises(InputError, match="two files"):
        read(folder, KNOWN)


@pytest.mark.parametrize(
    ("limit", "names"),
    [
        (None, ["one", "two", "three"]),
        ("", ["one", "two", "three"]),
        ("all", ["one", "two", "three"]),
        ("two", ["two"]),
        ("three,one", ["one", "three"]),
        ("t*", ["two", "three"]),
        ("inner", ["one", "two"]),
        ("out*", ["one", "two"]),
        ("all,!inner", ["three"]),
        ("!two", ["one", "three"]),
        ("!two,!three", ["one"]),
        ("inner , !one", ["two"]),
        ("o[mn]e", ["one"]),
    ],
)
def test_a_limit_chooses_by_name_group_and_pattern(write, limit, names):
    assert [machine.name for machine in read(write(hosts=TREE), KNOWN).select(limit)] == names


@pytest.mark.parametrize("limit", ["!one,all", "all,!one", "!one", "*,!on*", "!one,outer,three"])
def test_what_is_taken_away_stays_away_wherever_it_stands(write, limit):
    assert [machine.name for machine in read(write(hosts=TREE), KNOWN).select(limit)] == ["two", "three"]


def test_without_a_machine_there_is_nothing_to_do(write):
    with pytest.raises(InputError, match="the inventory has no machine"):
        read(write(hosts="all: {}"), KNOWN).select(None)


@pytest.mark.parametrize("name", ["web[1:3]", "a b", "../up", ".hidden", "a/b", "-x"])
def test_what_cannot_be_a_machines_name_is_refused_with_its_place(write, name):
    with pytest.raises(InputError, match="cannot be a machine's name") as caught:
        read(write(hosts=f'all:\n  hosts:\n    "{name}": {{local: true}}\n'), KNOWN)
    assert caught.value.where == "inv/hosts.yml:3"


def test_groups_that_meet_again_and_again_are_measured_once(write):
    """Each of 40 levels has two groups, both of which hold both of the next: 2 ** 40 ways lead down."""
    level = "{0}{1}: {{children: {{a{2}: , b{2}: }}}}"
    groups = [level.format(side, number, number + 1) for number in range(40) for side in "ab"]
    path = write(hosts=f"all: {{children: {{{', '.join(groups)}, a40: {{hosts: {{one: {{local: true}}}}}}}}}}")
    assert read(path, KNOWN).machines["one"].groups[-2:] == ("b39", "a40")


@pytest.mark.parametrize("limit", ["four", "one,four", "!four", "ONE", "x*", "!"])
def test_a_pattern_that_matches_nothing_is_an_error_that_names_the_known(write, limit):
    with pytest.raises(InputError, match="matches nothing") as caught:
        read(write(hosts=TREE), KNOWN).select(limit)
    assert caught.value.found == "known: all, apart, inner, one, outer, three, two"


@pytest.mark.parametrize("limit", [",", " , ", "one,!one", "all,!all"])
def test_a_limit_that_leaves_no_machine_is_an_error_and_never_all_of_them(write, limit):
    with pytest.raises(InputError, match="leaves no machine"):
        read(write(hosts=TREE), KNOWN).select(limit)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("size=5", 5),
        ("size='5'", "5"),
        ("size=[1, 2]", [1, 2]),
        ("size={a: true}", {"a": True}),
        ("size=", None),
        ("size=a=b", "a=b"),
        ("size=a: b", {"a": "b"}),
    ],
)
def test_set_is_read_as_yaml(text, value):
    name, found = parse_override(text, KNOWN)
    assert (name, found.value, found.place) == ("size", value, "--set size")


@pytest.mark.parametrize(
    "text",
    [
        "size",
        "",
        "=5",
        "Size=5",
        "size=[1",
        "size=2024-13-45",
        "size={a: 1, a: 2}",
        "size=&a [*a]",
        "size=" + "[" * 900,
    ],
)
def test_a_bad_set_is_an_input_error(text):
    with pytest.raises(InputError) as caught:
        parse_override(text, KNOWN)
    assert caught.value.where.startswith("--set")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with the inventories sandbox and example, as working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("sandbox", "example"):
        (tmp_path / "inventory" / name).mkdir(parents=True)
        (tmp_path / "inventory" / name / "hosts.yml").write_text("")
    return tmp_path


def test_the_sandbox_is_the_inventory_of_a_newcomer(checkout):
    assert locate(None, {}, checkout) == checkout / "inventory" / "sandbox"


def test_a_site_of_ones_own_comes_before_the_sandbox(checkout):
    (checkout / "inventory" / "site").mkdir()
    assert locate(None, {}, checkout) == checkout / "inventory" / "site"


def test_the_environment_comes_before_the_site_and_the_option_before_both(checkout):
    (checkout / "inventory" / "site").mkdir()
    environment = {"BLACKSTART_INVENTORY": "example"}
    assert locate(None, environment, checkout) == checkout / "inventory" / "example"
    assert locate("sandbox", environment, checkout) == checkout / "inventory" / "sandbox"


def test_an_inventory_may_be_any_folder(checkout, tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    assert locate(str(folder), {}, checkout) == folder
    assert locate("elsewhere", {}, checkout).resolve() == folder


@pytest.mark.parametrize(
    ("given", "environment", "where"),
    [
        ("nowhere", {}, "--inventory"),
        (None, {"BLACKSTART_INVENTORY": "nowhere"}, "BLACKSTART_INVENTORY"),
        ("/no/where", {}, "--inventory"),
    ],
)
def test_an_unknown_inventory_names_the_known(checkout, given, environment, where):
    with pytest.raises(InputError, match="there is no inventory") as caught:
        locate(given, environment, checkout)
    assert (caught.value.where, caught.value.found) == (where, "known: example, sandbox")


@pytest.mark.parametrize("kind", ["group_vars", "host_vars"])
@pytest.mark.parametrize("make", [lambda path: path.write_text("color: 1"), lambda path: path.symlink_to("elsewhere")])
def test_variables_in_what_is_no_folder_are_not_passed_over(write, kind, make):
    folder = write(hosts=TREE)
    make(folder / kind)
    with pytest.raises(InputError, match="the folder cannot be read"):
        read(folder, KNOWN)
