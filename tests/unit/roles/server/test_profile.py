import datetime
import json

import pytest

from blackstart.errors import InputError
from roles.server import profile as profiles
from roles.server.profile import arguments, merged

WHOLE = """\
description: a model, many requests at once
date: 2026-11-29
model: lab/model
releases: ["0.5.9"]
gpus: {kind: Some GPU, count: 8}
patches: [one, two]
flags:
  tp-size: 8
  trust-remote-code: true
  mem-fraction-static: 0.9
environment: {A: "1", B: "2"}
evidence:
  - {source: somewhere, what: it ran}
  - {source: elsewhere, what: so did this, date: 2026-02-28}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.yml").write_text(text)
        return tmp_path

    write(whole=WHOLE)
    return write


def child(text):
    head = "description: x\ndate: 2026-11-29\nmodel: lab/model\nreleases: []\ngpus: {kind: g, count: 1}\n"
    return head + text


def test_a_profile_is_read_with_all_it_says(folder):
    profile = profiles.read("whole", folder())
    assert profile.date == datetime.date(2026, 11, 29)
    assert profile.flags == {"tp-size": 8, "trust-remote-code": True, "mem-fraction-static": 0.9}
    assert profile.environment == {"A": "1", "B": "2"}
    assert [evidence.date for evidence in profile.evidence] == [None, datetime.date(2026, 2, 28)]


def test_an_heir_adds_changes_and_takes_out(folder):
    text = child("extends: whole\npatches: [two, three]\nflags: {tp-size: 4, mem-fraction-static: null, new: x}\n")
    profile = profiles.read("heir", folder(heir=text + "environment: {A: null, C: '3'}\n"))
    assert profile.flags == {"tp-size": 4, "trust-remote-code": True, "new": "x"}
    assert profile.environment == {"B": "2", "C": "3"}
    assert profile.patches == ["one", "two", "three"]
    assert profile.description == "x"


def test_an_heir_of_an_heir(folder):
    folder(middle=child("extends: whole\nflags: {tp-size: 4}\n"), last=child("extends: middle\nflags: {a: 1}\n"))
    assert profiles.read("last", folder()).flags["tp-size"] == 4
    assert profiles.read("last", folder()).flags["a"] == 1


def test_an_unknown_profile_names_the_known(folder):
    for name in ("none", "../whole", "whole.yml", ""):
        with pytest.raises(InputError, match="there is no profile") as caught:
            profiles.read(name, folder())
        assert caught.value.found == "known: whole"


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        (child("extends: none\n"), "", "there is no profile 'none'"),
        (child("extends: bad\n"), "bad.yml", "extends itself"),
        (child("flag: {}\n"), "bad.yml:6", "flag: extra inputs"),
        (child("flags: [a]\n"), "bad.yml:6", "flags: input should be a valid dict"),
        (child("evidence:\n  - {source: x}\n"), "bad.yml:7", r"evidence\.0\.what: field required"),
        (child("environment:\n  A: 1\n"), "bad.yml:7", r"environment\.A: input should be a valid string"),
        (child("").replace("count: 1", "count: 0"), "bad.yml:5", r"gpus\.count"),
        (child("").replace("2026-11-29", "someday"), "bad.yml:2", "date: "),
        ("", "bad.yml:1", "description: field required"),
        ("[]", "bad.yml:1", "input should be"),
        ("flags: ]", "bad.yml:1", "not valid YAML"),
    ],
)
def test_a_bad_profile_is_an_error_with_its_place(folder, text, where, says):
    with pytest.raises(InputError, match=says) as caught:
        profiles.read("bad", folder(bad=text))
    assert caught.value.where.startswith(where)


def test_profiles_that_extend_each_other_are_refused_with_the_way(folder):
    folder(a=child("extends: b\n"), b=child("extends: a\n"))
    with pytest.raises(InputError, match="extends itself") as caught:
        profiles.read("a", folder())
    assert caught.value.found == "a -> b -> a"


def test_names_are_those_of_the_files(folder):
    assert profiles.names(folder(b=WHOLE)) == ["b", "whole"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({}, []),
        ({"tp-size": 8}, ["--tp-size", "8"]),
        ({"a": True, "b": False, "c": None}, ["--a"]),
        ({"a": 0}, ["--a", "0"]),
        ({"a": ""}, ["--a", ""]),
        ({"a": 0.9}, ["--a", "0.9"]),
        ({"a": "two words"}, ["--a", "two words"]),
        ({"a": [1, 2, "x"]}, ["--a", "1", "2", "x"]),
        ({"a": []}, ["--a"]),
        ({"a": {"x": True, "n": 16, "s": "ü"}}, ["--a", '{"x": true, "n": 16, "s": "\\u00fc"}']),
        ({"a": [{"x": 1}, {"y": 2}]}, ["--a", '{"x": 1}', '{"y": 2}']),
        ({"b": 1, "a": 2}, ["--b", "1", "--a", "2"]),
    ],
)
def test_flags_become_words_and_a_json_value_one_word(flags, words):
    assert arguments(flags) == words


def test_what_belongs_to_the_place_is_laid_over_the_profile(folder):
    profile = profiles.read("whole", folder())
    placed = merged(profile, {"tp-size": None, "model-path": "/srv/m"}, {"A": None, "C": "3"})
    assert placed.flags == {"trust-remote-code": True, "mem-fraction-static": 0.9, "model-path": "/srv/m"}
    assert placed.environment == {"B": "2", "C": "3"}
    assert profile.flags["tp-size"] == 8


@pytest.mark.parametrize("name", profiles.names())
def test_the_projects_own_profiles_are_valid_and_have_evidence(name):
    profile = profiles.read(name)
    assert profile.evidence and profile.releases
    assert profile.flags["tp-size"] == profile.gpus.count


@pytest.mark.parametrize("name", ["MY VAR", "A=B", "1ST", "", "A\n"])
def test_a_variable_that_systemd_would_pass_over_is_refused(folder, name):
    text = child(f"environment:\n  B: x\n  {json.dumps(name)}: y\n")
    with pytest.raises(InputError) as caught:
        profiles.read("odd", folder(odd=text))
    assert caught.value.where.startswith("odd.yml:")
