from pathlib import Path

import pytest

from blackstart import yamlfile
from blackstart.errors import InputError

TEXT = """\
# a comment
first: 1
nested:
  list:
    - a
    - {b: 2}
shared: &anchor {x: 1}
again: *anchor
"""


def parse(text, name="some.yml"):
    return yamlfile.parse(text, Path(name))


def test_data_is_what_yaml_says():
    assert parse(TEXT).data == {"first": 1, "nested": {"list": ["a", {"b": 2}]}, "shared": {"x": 1}, "again": {"x": 1}}


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("first",), 2),
        (("nested",), 3),
        (("nested", "list", 0), 5),
        (("nested", "list", 1, "b"), 6),
        (("nested", "list", 1, "not there"), 6),
        (("again", "x"), 7),
        ((), 2),
        (("unknown",), 2),
    ],
)
def test_every_value_knows_its_line_and_what_has_none_borrows_the_nearest(keys, line):
    assert parse(TEXT).place(keys) == f"some.yml:{line}"


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_holds_nothing(text):
    assert parse(text).data is None


def test_values_have_yaml_types():
    data = parse("{a: true, b: null, c: 1.5, d: '1', e: 0x10, f: 'yes', g: yes}").data
    assert data == {"a": True, "b": None, "c": 1.5, "d": "1", "e": 16, "f": "yes", "g": True}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: [1\nb: 2\n", 2, "not valid YAML"),
        ("a: 1\n  b: 2\n", 2, "not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is given twice"),
        ("x:\n  a: 1\n  a: 2\n", 3, "'a' is given twice"),
        ("a: 1\n5: 2\n", 2, "a key must be text"),
        ("a: 1\ntrue: 2\n", 2, "a key must be text"),
        ("? [1]\n: 2\n", 1, "a key must be text"),
        ("a: 1\nb: &b [*b]\n", 2, "an alias holds itself"),
        ("a: *nobody\n", 1, "not valid YAML"),
        ("a: &a {x: 1}\nb:\n  <<: *a\n", 3, "the merge key << is not known here"),
        ("a: 1\n--- \nb: 2\n", 2, "not valid YAML"),
        ("a: 1\nb: !!python/object/apply:os.system [id]\n", 0, None),
        ("a: 1\nb: !!python/name:os.system x\n", 2, "cannot be read"),
        ("a: 2024-13-45\n", 1, "cannot be read"),
        ("a: !!bool maybe\n", 1, "cannot be read"),
        ("a: !!int ''\n", 1, "cannot be read"),
        ("a: !!timestamp never\n", 1, "cannot be read"),
        ("a: !!binary x\n", 1, "cannot be read"),
        (f"a: {'9' * 5000}\n", 1, "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_an_error_with_its_place(text, line, says):
    if says is None:  # a tag on a collection is not obeyed, whatever it asks for
        assert parse(text).data == {"a": 1, "b": ["id"]}
        return
    with pytest.raises(InputError, match=says) as caught:
        parse(text)
    assert caught.value.where == f"some.yml:{line}"


@pytest.mark.parametrize("text", ["\x00", "a: \x07\n", "[" * 900 + "]" * 900, "[" * 100_000])
def test_hostile_text_is_an_error_too(text):
    with pytest.raises(InputError) as caught:
        parse(text)
    assert caught.value.where.startswith("some.yml")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for path in (tmp_path / "missing.yml", tmp_path):
        with pytest.raises(InputError, match="cannot be read") as caught:
            yamlfile.load(path)
        assert caught.value.where == str(path)


def test_a_file_that_is_no_utf8_is_named(tmp_path):
    path = tmp_path / "latin.yml"
    path.write_bytes(b"a: \xe9\n")
    with pytest.raises(InputError, match="cannot be read"):
        yamlfile.load(path)


def test_paths_are_shown_as_a_person_would_type_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert yamlfile.shown(tmp_path / "inventory" / "hosts.yml") == "inventory/hosts.yml"
    assert yamlfile.shown(Path("/etc/hosts")) == "/etc/hosts"
