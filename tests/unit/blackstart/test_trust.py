import fabric
import paramiko
import pytest

from blackstart.trust import UnknownHostKey, hops, known_name, trust_only


@pytest.fixture(scope="module")
def keys():
    return [paramiko.ECDSAKey.generate() for _ in range(3)]


@pytest.fixture
def known(tmp_path):
    def known(name, *keys):
        path = tmp_path / name.strip("[]").replace("]:", "_")
        path.write_text("".join(f"{name} {key.get_name()} {key.get_base64()}\n" for key in keys))
        return path

    return known


def trusted(connection, key):
    """Whether paramiko would go on with a machine that shows this key."""
    name = known_name(connection.host, connection.port)
    own = connection.client.get_host_keys().lookup(name)
    return own is not None and own.get(key.get_name()) == key


def test_each_of_several_keys_of_a_type_is_trusted_and_no_other(keys, known):
    connection = fabric.Connection("box.example", port=22)
    trust_only(connection, [known("box.example", *keys[:2])])
    assert [trusted(connection, key) for key in keys] == [True, True, False]


def test_the_keys_of_all_files_count(keys, known, tmp_path):
    connection = fabric.Connection("box.example", port=22)
    trust_only(connection, [tmp_path / "none", known("other", keys[2]), known("box.example", keys[0])])
    assert [trusted(connection, key) for key in keys] == [True, False, False]


def test_a_port_is_part_of_the_name(keys, known):
    for port, name in ((22, "box.example"), (2222, "[box.example]:2222")):
        connection = fabric.Connection("box.example", port=port)
        trust_only(connection, [known(name, keys[0])])
        assert trusted(connection, keys[0])
        other = fabric.Connection("box.example", port=port + 1)
        trust_only(other, [known(name, keys[0])])
        assert not trusted(other, keys[0])


def test_whoever_is_not_known_is_refused_with_the_key(keys):
    connection = fabric.Connection("box.example")
    trust_only(connection, [])
    with pytest.raises(UnknownHostKey) as caught:
        connection.client._policy.missing_host_key(connection.client, "box.example", keys[0])
    assert caught.value.key == keys[0]


def test_the_way_goes_through_the_jump_hosts_in_their_order():
    first = fabric.Connection("first.example")
    second = fabric.Connection("second.example", gateway=first)
    machine = fabric.Connection("box.example", gateway=second)
    assert hops(machine) == [first, second, machine]
    assert hops(first) == [first]
    assert len(hops(fabric.Connection("box.example", gateway="a proxy command"))) == 1
