import subprocess

import pytest
from paramiko import HostKeys

from blackstart.known_hosts import keys_of


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """Two public keys as known_hosts holds them: type and data."""
    folder = tmp_path_factory.mktemp("keys")
    found = []
    for kind in ("ed25519", "ecdsa"):
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", folder / kind], check=True)
        found.append(" ".join((folder / f"{kind}.pub").read_text().split()[:2]))
    return found


@pytest.fixture
def known(tmp_path):
    path = tmp_path / "known_hosts"

    def write(*lines):
        path.write_text("".join(line + "\n" for line in lines))
        return path

    return write


def found(name, path, *, revoked=False):
    return [
        f"{known.key.get_name()} {known.key.get_base64()}"
        for known in keys_of(name, path)
        if known.is_revoked == revoked
    ]


def test_a_machine_has_the_keys_of_its_lines(known, public):
    one, two = public
    path = known(f"other {two}", f"box {one} a comment", "# box", "", f"box,198.51.100.7 {two}")
    assert found("box", path) == [one, two]
    assert found("198.51.100.7", path) == [two]
    assert found("nobody", path) == []


def test_a_port_is_part_of_the_name(known, public):
    one, two = public
    path = known(f"box {one}", f"[box]:2222 {two}")
    assert found("[box]:2222", path) == [two]


def test_hashed_names_are_recognised(known, public):
    one, two = public
    path = known(f"{HostKeys.hash_host('other')} {two}", f"{HostKeys.hash_host('[box]:2222')} {one}")
    assert found("[box]:2222", path) == [one]


@pytest.mark.parametrize(
    "line",
    [
        "box",
        "box ssh-ed25519",
        "box ssh-ed25519 not=base64",
        "box no-such-kind AAAA",
        "@revoked box",
        "|1|x|y ssh-rsa A",
        "|1|AAAA|\u00fc ssh-rsa A",
    ],
)
def test_a_line_that_says_nothing_trusts_nobody(known, public, line):
    assert found("box", known(line)) == []
    assert found("box", known(line, f"box {public[0]}")) == public[:1]


@pytest.mark.parametrize(
    "line",
    [
        "@revoked box {}",
        "@revoked * {}",
        "@revoked b?x,other {}",
        "@revoked  box  {}",
        "  @revoked box {}",
        "@revoked\tbox\t{}",
        "\t@revoked  *,!other {} a comment",
    ],
)
def test_a_revoked_key_is_no_known_key(known, public, line):
    path = known(line.format(public[0]), f"box {public[1]}")
    assert found("box", path) == public[1:]
    assert found("box", path, revoked=True) == public[:1]


def test_a_line_says_where_it_stands(known, public):
    path = known("# box", f"box {public[0]}")
    assert [(line.place, line.path) for line in keys_of("box", path)] == [(f"{path}:2", path)]


@pytest.mark.parametrize(
    ("names", "name", "fits"),
    [
        ("*.example.net", "box.example.net", True),
        ("*.example.net", "box.example.org", False),
        ("box?", "box1", True),
        ("box?", "box", False),
        ("[box]:*", "[box]:2222", True),
        ("[box]:*", "box", False),
        ("[127.0.9.*]:22??", "[127.0.9.1]:2222", True),
        ("b.x", "box", False),
        ("box,!box", "box", False),
        ("!box,*", "box", False),
        ("!other,*", "box", True),
        ("!other", "box", False),
        ("Box", "box", True),
        ("*.EXAMPLE.net", "Box.example.NET", True),
        ("*", "", True),
    ],
)
def test_names_are_patterns_as_in_ssh(known, public, names, name, fits):
    assert found(name, known(f"{names} {public[0]}")) == (public[:1] if fits else [])


def test_fields_stand_apart_by_blanks_and_tabs(known, public):
    kind, data = public[0].split()
    for line in (f"box\t{kind}\t{data}", f"  box   {kind}  {data}  a comment", f"\tbox {kind} {data}\r"):
        assert found("box", known(line)) == public[:1]


def test_the_key_of_an_authority_is_no_host_key(known, public):
    path = known(f"@cert-authority * {public[0]}", f"@other * {public[0]}", f"@cert-authority,box {public[0]}")
    assert found("box", path) == found("box", path, revoked=True) == []


@pytest.mark.parametrize("damage", ["cut", "another kind", "a certificate"])
def test_a_damaged_key_trusts_nobody(known, public, damage):
    kind, data = public[0].split()
    line = {"cut": f"{kind} {data[:-12]}", "another kind": f"ssh-rsa {data}"}.get(
        damage, f"ssh-ed25519-cert-v01@openssh.com {data}"
    )
    assert found("box", known(f"box {line}", f"box {public[1]}")) == public[1:]


def test_keys_of_others_are_not_parsed(known, public, monkeypatch):
    parsed = []
    monkeypatch.setattr("paramiko.PKey.from_type_string", lambda kind, data: parsed.append(kind))
    assert keys_of("nobody", known(*(f"box{number} {public[0]}" for number in range(100)))) == []
    assert parsed == []


def test_without_a_file_nobody_is_known(tmp_path):
    assert found("box", tmp_path / "none") == []


def test_bytes_that_are_no_text_do_no_harm(known, public):
    path = known(f"box {public[0]}")
    path.write_bytes(b"\xff\xfe\x00 noise\n" + path.read_bytes())
    assert found("box", path) == public[:1]


def test_a_folder_is_an_error(tmp_path):
    with pytest.raises(IsADirectoryError):
        keys_of("box", tmp_path)
