"""/etc/pve/lxc/ID.conf: what is read, what is written back, what is warned about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandbox.pct import conf

FULL = """\
#The GPU box%3A 8 cards
#second line
arch: amd64
dev0: /dev/nvidia0,mode=0666
hostname: sglang
memory: 2048
rootfs: local:200/subvol-200-disk-0.subvol,size=0T
lxc.prlimit.memlock: unlimited
lxc.mount.entry: /dev/nvidia1 dev/nvidia1 none bind,optional,create=file
lxc.cgroup2.devices.allow: c 195:* rwm

[pve:pending]
delete: dev3,mp0
dev4: /dev/nvidia4,mode=0666

[before_upgrade]
#why
arch: amd64
memory: 1024
parent: older
snaptime: 1700000000
lxc.cgroup2.devices.allow: c 195:* rwm
"""


def parsed(text: str) -> tuple[conf.Conf, list[str]]:
    warnings: list[str] = []
    return conf.parse(text, 200, warnings.append), warnings


def test_a_whole_file_comes_back_byte_for_byte() -> None:
    found, warnings = parsed(FULL)
    assert warnings == []
    assert found.text() == FULL


def test_the_description_is_decoded_and_stays_with_its_section() -> None:
    found, _ = parsed(FULL)
    assert found.current.description == "The GPU box: 8 cards\nsecond line\n"
    assert found.snapshots["before_upgrade"].description == "why\n"


def test_pending_changes_show_and_are_applied() -> None:
    found, _ = parsed(FULL.replace("memory: 2048", "dev3: /dev/nvidia3\nmemory: 2048"))
    assert "dev3" not in found.after_pending()
    assert found.after_pending()["dev4"] == "/dev/nvidia4,mode=0666"
    found.apply_pending()
    assert "[pve:pending]" not in found.text()
    assert "dev4: /dev/nvidia4,mode=0666\n" in found.text()


def test_raw_lines_are_read_in_both_spellings_and_keep_their_order() -> None:
    found, warnings = parsed("lxc.cap.drop = sys_time\nmemory: 512\nlxc.apparmor.profile: unconfined\n")
    assert warnings == []
    assert found.text() == "memory: 512\nlxc.cap.drop: sys_time\nlxc.apparmor.profile: unconfined\n"


def test_the_old_cgroup_key_is_kept_with_the_real_warning() -> None:
    found, warnings = parsed("lxc.cgroup.devices.allow: c 195:* rwm\n")
    assert warnings == ["vm 200 - lxc.cgroup.devices.allow is deprecated, this will be a hard error in the future!"]
    assert found.current.raw == [("lxc.cgroup.devices.allow", "c 195:* rwm")]


def test_what_cannot_be_read_is_named_and_left_out() -> None:
    for line in ("lxc.bogus: 1", "lxc.rootfs.path: dir:/", "no colon here", "UPPER: 1"):
        found, warnings = parsed(f"memory: 512\n{line}\n")
        assert warnings == [f"vm 200 - unable to parse config: {line}"], line
        assert found.text() == "memory: 512\n"


def test_a_value_that_does_not_fit_is_warned_about_and_kept() -> None:
    found, warnings = parsed("memory: much\nfoo: 1\n")
    assert warnings == [
        "vm 200 - unable to parse value of 'memory' - type check ('integer') failed - got 'much'",
        "vm 200 - unable to parse value of 'foo' - unknown setting 'foo'\n",
    ]
    assert found.current.options == {"memory": "much", "foo": "1"}


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40))
def test_any_description_survives_a_write(line: str) -> None:
    found = conf.Conf(current=conf.Section({"memory": "512"}, [], line))
    again, warnings = parsed(found.text())
    assert warnings == []
    assert again.current.description.rstrip("\n") == line
