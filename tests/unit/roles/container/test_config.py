from pathlib import Path

import pytest

from roles.container import config

SAMPLES = Path(__file__).parent / "samples"


def sample(name):
    return config.parse((SAMPLES / f"{name}.conf").read_text())


def test_options_are_read_and_raw_lines_are_not():
    found = sample("privileged")
    assert found["hostname"] == "sglang"
    assert found["rootfs"] == "local:200/subvol-200-disk-0.subvol,size=0T"
    assert found["net0"] == "name=eth0,bridge=vmbr0,hwaddr=BC:24:11:54:B4:CA,ip=192.0.2.50/24,type=veth"
    assert not [key for key in found if key.startswith("lxc")]
    assert len(found) == 15


def test_snapshots_pending_changes_and_comments_are_not_the_present_state():
    found = sample("snapshots")
    assert found == {
        "arch": "amd64",
        "hostname": "now",
        "memory": "2048",
        "parent": "before",
        "tags": "blackstart;gpu",
        "unprivileged": "1",
    }


def test_an_empty_file_has_no_options():
    assert config.parse("") == {}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("/dev/nvidia0,mode=0666", {"": "/dev/nvidia0", "mode": "0666"}),
        ("512", {"": "512"}),
        ("nesting=1,keyctl=1", {"nesting": "1", "keyctl": "1"}),
        ("path=/dev/x", {"path": "/dev/x"}),
        ("order=5,up=10,down=120", {"order": "5", "up": "10", "down": "120"}),
    ],
)
def test_a_property_string_is_taken_apart(value, found):
    assert config.properties(value) == found


def test_what_proxmox_adds_by_itself_is_no_difference():
    present = sample("unprivileged")
    wanted = {
        "net0": "name=eth0,bridge=vmbr0,ip=dhcp",
        "mp0": "/var/lib/vz/models,mp=/models,ro=1",
        "features": "nesting=1",
        "dev0": "/dev/nvidia0,mode=0666",
        "rootfs": "local:210/subvol-210-disk-0.subvol",
        "memory": "512",
    }
    assert config.differing(present, wanted) == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("memory", "513"),
        ("dev0", "/dev/nvidia1,mode=0666"),
        ("dev0", "/dev/nvidia0,mode=0660"),
        ("dev2", "/dev/nvidiactl,mode=0666"),
        ("features", "nesting=1,fuse=1"),
        ("net0", "name=eth0,bridge=vmbr1,ip=dhcp"),
        ("onboot", "1"),
    ],
)
def test_what_is_not_as_wanted_is_a_difference(key, value):
    assert config.differing(sample("unprivileged"), {"hostname": "u", key: value}) == {key: value}
