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


def found(name, path):
    return [f"{key.get_name()} {key.get_base64()}" for key in keys_of(name, path)]


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


def test_a_revoked_key_is_no_known_key(known, public):
    assert found("box", known(f"@revoked box {public[0]}", f"@cert-authority * {public[1]}")) == []


def test_without_a_file_nobody_is_known(tmp_path):
    assert found("box", tmp_path / "none") == []


def test_bytes_that_are_no_text_do_no_harm(known, public):
    path = known(f"box {public[0]}")
    path.write_bytes(b"\xff\xfe\x00 noise\n" + path.read_bytes())
    assert found("box", path) == public[:1]
