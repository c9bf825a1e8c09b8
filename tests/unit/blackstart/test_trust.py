import socket

import fabric
import paramiko
import pytest

from blackstart.trust import ChangedHostKey, RevokedHostKey, UnknownHostKey, hops, known_names, trust_only


@pytest.fixture(scope="module")
def keys():
    return [paramiko.ECDSAKey.generate() for _ in range(3)]


@pytest.fixture
def known(tmp_path):
    def known(name, *keys, file=""):
        path = tmp_path / (file or name.strip("[]").replace("]:", "_"))
        path.write_text("".join(f"{name} {key.get_name()} {key.get_base64()}\n" for key in keys))
        return path

    return known


def refused(connection, key):
    """What is said against a machine that shows this key; None where it is trusted."""
    try:
        connection.client._policy.missing_host_key(connection.client, "", key)
    except (ChangedHostKey, RevokedHostKey, UnknownHostKey) as error:
        assert error.key == key
        return error
    return None


def trusted(connection, key):
    return refused(connection, key) is None


def asked_for(connection):
    """The kinds of keys that a machine is asked for, in their order."""
    here, there = socket.socketpair()
    transport = connection.connect_kwargs["transport_factory"](here)
    try:
        return list(transport.get_security_options().key_types)
    finally:
        transport.close()
        here.close()
        there.close()


def test_each_of_several_keys_of_a_type_is_trusted_and_no_other(keys, known):
    connection = fabric.Connection("box.example", port=22)
    trust_only(connection, [known("box.example", *keys[:2])])
    assert [trusted(connection, key) for key in keys] == [True, True, False]


def test_the_keys_of_all_files_count(keys, known, tmp_path):
    connection = fabric.Connection("box.example", port=22)
    trust_only(connection, [tmp_path / "none", known("other", keys[2]), known("box.example", keys[0])])
    assert [trusted(connection, key) for key in keys] == [True, False, False]


def test_a_port_is_part_of_the_name(keys, known):
    connection = fabric.Connection("box.example", port=22)
    trust_only(connection, [known("[box.example]:2222", keys[0])])
    assert not trusted(connection, keys[0])
    for port in (2222, 2223):
        connection = fabric.Connection("box.example", port=port)
        trust_only(connection, [known("[box.example]:2222", keys[0])])
        assert trusted(connection, keys[0]) == (port == 2222)


def test_whoever_is_not_known_is_refused_with_the_key(keys):
    connection = fabric.Connection("box.example")
    trust_only(connection, [])
    error = refused(connection, keys[0])
    assert isinstance(error, UnknownHostKey) and error.kinds == []


def test_another_key_of_a_known_kind_is_a_changed_one_and_its_line_is_named(keys, known):
    connection = fabric.Connection("box.example")
    trust_only(connection, [known("other", keys[2]), known("box.example", keys[0])])
    error = refused(connection, keys[1])
    assert isinstance(error, ChangedHostKey)
    assert error.known.place.endswith("/box.example:1")


def test_a_key_of_a_kind_that_is_not_known_is_no_changed_one(keys, known):
    connection = fabric.Connection("box.example")
    trust_only(connection, [known("box.example", *keys)])
    error = refused(connection, paramiko.RSAKey.generate(2048))
    assert isinstance(error, UnknownHostKey) and error.kinds == ["ecdsa-sha2-nistp256"]


def test_a_key_that_one_file_revokes_is_trusted_in_none(keys, known):
    files = [known("@revoked *", keys[0], file="revoked"), known("box.example", *keys[:2])]
    for order in (files, files[::-1]):
        connection = fabric.Connection("box.example")
        trust_only(connection, order)
        assert isinstance(refused(connection, keys[0]), RevokedHostKey)
        assert trusted(connection, keys[1])


def test_a_line_without_a_port_is_good_for_each_port_that_has_none_of_its_own(keys, known):
    plain = known("box.example", keys[0])
    connection = fabric.Connection("box.example", port=2222)
    trust_only(connection, [plain])
    assert trusted(connection, keys[0])
    assert isinstance(refused(connection, keys[1]), UnknownHostKey)
    trust_only(connection, [plain, known("[box.example]:2222", keys[1])])
    assert isinstance(refused(connection, keys[0]), ChangedHostKey)
    assert trusted(connection, keys[1])
    trust_only(connection, [plain, known("@revoked *", keys[0], file="revoked")])
    assert isinstance(refused(connection, keys[0]), RevokedHostKey)


def test_an_alias_of_the_ssh_config_stands_for_host_and_port(keys, known):
    config = fabric.Config(ssh_config=paramiko.SSHConfig.from_text("Host box.example\n  HostKeyAlias box-alias\n"))
    connection = fabric.Connection("box.example", port=2222, config=config)
    assert known_names(connection) == ["box-alias"]
    trust_only(connection, [known("box.example", keys[0]), known("box-alias", keys[1])])
    assert isinstance(refused(connection, keys[0]), ChangedHostKey)
    assert trusted(connection, keys[1])


def test_a_machine_is_asked_first_for_the_kinds_that_are_known(keys, known):
    rsa = paramiko.RSAKey.generate(2048)
    connection = fabric.Connection("box.example")
    trust_only(connection, [])
    usual = asked_for(connection)
    trust_only(connection, [known("box.example", rsa)])
    assert asked_for(connection)[:3] == ["rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"]
    trust_only(connection, [known("box.example", rsa, keys[0])])
    first = ["ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"]
    assert asked_for(connection) == first + [kind for kind in usual if kind not in first]
    trust_only(connection, [known("box.example", rsa, keys[0]), known("@revoked *", keys[0], file="revoked")])
    assert asked_for(connection)[0] == "rsa-sha2-512"


def test_the_way_goes_through_the_jump_hosts_in_their_order():
    first = fabric.Connection("first.example")
    second = fabric.Connection("second.example", gateway=first)
    machine = fabric.Connection("box.example", gateway=second)
    assert hops(machine) == [first, second, machine]
    assert hops(first) == [first]
    assert len(hops(fabric.Connection("box.example", gateway="a proxy command"))) == 1
