from pathlib import Path

import pytest

from blackstart.errors import CheckError, InputError
from blackstart.machine import Machine, Value
from blackstart.paths import ROLES
from blackstart.variables import read_defaults, resolve
from roles.container import state as container
from roles.container.state import TAG, Mount, Variables

SAMPLES = Path(__file__).parent / "samples"
DEVICES = ["/dev/nvidia0", "/dev/nvidiactl"]


def variables(**given):
    """The role's own defaults with what an inventory would give."""
    values = {"container_vmid": 200, "container_devices": DEVICES, **given}
    machine = Machine("glm5", ("all",), {name: Value(value, "here") for name, value in values.items()}, "here")
    return resolve(machine, read_defaults(ROLES), Variables)


def conf(**changes):
    """The configuration file of a container of ours that is as wanted, with changes; None takes a line out."""
    lines = {**container.wanted_options(variables()), "arch": "amd64", "unprivileged": "1", **changes}
    return "".join(f"{key}: {value}\n" for key, value in lines.items() if value is not None)


def facts(text=None, *, running=True, vm=False, devices=("special file", "special file")):
    """The answers to the role's questions on a host."""
    return [
        None if text is None else {"text": text, "sha256": "x"},
        {"status": 0, "output": "RUNNING\n" if running else "STOPPED\n"},
        {"kind": "file" if vm else "absent", "target": ""},
        *({"kind": kind, "target": ""} for kind in devices),
    ]


def names(state):
    return [resource.name for resource in state.resources]


def argv(state, name):
    (found,) = [resource.spec["argv"] for resource in state.resources if resource.name.startswith(name)]
    return found


def test_the_questions_cost_no_pct():
    probes = container.host_probes(variables())
    assert [probe["probe"] for probe in probes] == ["file", "run", "entry", "entry", "entry"]
    assert probes[0]["path"] == "/etc/pve/lxc/200.conf"
    assert probes[1]["argv"][0] == "lxc-info"
    assert probes[2]["path"] == "/etc/pve/qemu-server/200.conf"
    assert not [word for probe in probes for word in probe.get("argv", ()) if word == "pct"]


def test_every_question_has_an_answer_of_its_shape():
    assert len(facts()) == len(container.host_probes(variables()))


@pytest.mark.parametrize(("output", "running"), [("RUNNING\n", True), ("STOPPED\n", False), ("", False)])
def test_a_container_runs_when_lxc_says_so(output, running):
    assert container.running(variables(), [None, {"status": 0, "output": output}]) is running


def test_a_container_is_entered_with_the_words_as_they_are():
    entered = container.enter(variables(), ["/bin/sh", "-c", "echo $x; exit 3"])
    assert entered == ["pct", "exec", "200", "--", "/bin/sh", "-c", "echo $x; exit 3"]


# what is wanted


def test_a_missing_container_is_created_and_started():
    state = container.host_state(variables(), facts(running=False))
    assert names(state) == ["container 200", "lines in /etc/pve/lxc/200.conf", "start container 200"]
    words = argv(state, "container 200")
    assert words[:5] == [
        "pct",
        "create",
        "200",
        "local:vztmpl/debian-12-standard_12.7-1_amd64.tar.zst",
        "--rootfs",
    ]
    options = dict(zip(words[6::2], words[7::2], strict=True))
    assert options["--unprivileged"] == "1"
    assert options["--hostname"] == "glm5"
    assert options["--tags"] == TAG
    assert options["--dev0"] == "/dev/nvidia0,mode=0666" and options["--dev1"] == "/dev/nvidiactl,mode=0666"
    assert options["--features"] == "nesting=1" and options["--onboot"] == "1"
    assert "--cores" not in options
    create = state.resources[0]
    assert create.spec["creates"] == "/etc/pve/lxc/200.conf"


def test_privileged_is_said_as_plainly_as_unprivileged():
    words = argv(container.host_state(variables(container_unprivileged=False), facts(running=False)), "container 200")
    assert words[words.index("--unprivileged") + 1] == "0"


def test_a_container_that_is_as_wanted_is_left_alone():
    state = container.host_state(variables(), facts(conf()))
    assert names(state) == ["container 200", "lines in /etc/pve/lxc/200.conf"]
    assert not [resource for resource in state.resources if "set" in resource.spec.get("argv", ())]


def test_what_differs_is_set_in_one_call():
    state = container.host_state(variables(), facts(conf(memory="512", dev1=None)))
    assert argv(state, "options of container 200") == [
        "pct",
        "set",
        "200",
        "--memory",
        "262144",
        "--dev1",
        "/dev/nvidiactl,mode=0666",
    ]


def test_a_stopped_container_is_started():
    assert names(container.host_state(variables(), facts(conf(), running=False)))[-1] == "start container 200"


def test_raw_lines_stand_before_any_snapshot_and_leave_the_files_attributes_to_proxmox():
    (lines,) = [
        resource for resource in container.host_state(variables(), facts(conf())).resources if resource.kind == "lines"
    ]
    assert lines.spec == {
        "path": "/etc/pve/lxc/200.conf",
        "lines": ["lxc.prlimit.memlock: unlimited"],
        "mode": None,
        "before": "[",
    }


@pytest.mark.parametrize("line", ["", "[snapshot]", "lxc.a: 1\nlxc.b: 2"])
def test_what_is_no_raw_line_is_refused(line):
    with pytest.raises(InputError, match="container_raw_lines"):
        variables(container_raw_lines=[line])


def test_without_raw_lines_the_file_is_left_to_pct():
    state = container.host_state(variables(container_raw_lines=[]), facts(conf()))
    assert not [resource for resource in state.resources if resource.kind == "lines"]


def test_options_left_empty_are_not_given():
    options = container.wanted_options(variables(container_features="", container_startup=""))
    assert "features" not in options and "startup" not in options


def test_cores_and_mounts_are_given_as_pct_takes_them():
    mounts = [{"source": "/tank/models", "target": "/srv/models"}, {"source": "/a", "target": "/b", "read_only": False}]
    options = container.wanted_options(variables(container_cores=8, container_mounts=mounts))
    assert options["cores"] == "8"
    assert options["mp0"] == "/tank/models,mp=/srv/models,ro=1"
    assert options["mp1"] == "/a,mp=/b,ro=0"


def test_a_mount_that_is_to_be_written_to_again_is_a_difference():
    mounts = [{"source": "/a", "target": "/b", "read_only": False}]
    present = conf(mp0="/a,mp=/b,ro=1")
    words = argv(container.host_state(variables(container_mounts=mounts), facts(present)), "options of container 200")
    assert words[-2:] == ["--mp0", "/a,mp=/b,ro=0"]


def test_a_name_of_its_own_goes_before_that_of_the_inventory():
    assert container.wanted_options(variables(container_hostname="sglang"))["hostname"] == "sglang"


def test_other_tags_of_a_container_stay():
    state = container.host_state(variables(), facts(conf(tags=f"{TAG};gpu;prod")))
    assert not [name for name in names(state) if name.startswith("options")]
    adopted = container.host_state(variables(container_adopt=True), facts(conf(tags="gpu;prod")))
    words = argv(adopted, "options of container 200")
    assert words[words.index("--tags") + 1] == f"gpu;prod;{TAG}"


# what is refused, with nothing touched


@pytest.mark.parametrize("sample", ["privileged", "unprivileged"])
def test_a_container_of_somebody_else_is_left_alone(sample):
    text = (SAMPLES / f"{sample}.conf").read_text()
    with pytest.raises(InputError, match="container 200 is there and is not ours") as caught:
        container.host_state(variables(), facts(text))
    assert "hostname" in caught.value.found and "container_adopt=true" in caught.value.remedy


@pytest.mark.parametrize("tags", [None, "gpu", f"{TAG}-not", f"not-{TAG};x"])
def test_a_tag_counts_only_as_a_whole(tags):
    with pytest.raises(InputError, match="is not ours"):
        container.host_state(variables(), facts(conf(tags=tags)))


def test_a_container_of_somebody_else_is_taken_over_on_request_only():
    text = (SAMPLES / "unprivileged.conf").read_text()
    state = container.host_state(variables(container_adopt=True), facts(text))
    words = argv(state, "options of container 200")
    assert words[words.index("--tags") + 1] == TAG


def test_an_id_of_a_virtual_machine_is_refused():
    with pytest.raises(InputError, match="id 200 is a virtual machine's"):
        container.host_state(variables(), facts(vm=True))


def test_a_locked_container_is_left_alone():
    with pytest.raises(CheckError, match="container 200 is locked") as caught:
        container.host_state(variables(), facts(conf(lock="backup")))
    assert caught.value.found == "lock: backup" and "pct unlock 200" in caught.value.remedy


def test_the_lock_of_a_snapshot_is_no_lock():
    text = conf() + "\n[before]\nlock: backup\n"
    assert container.host_state(variables(), facts(text))


@pytest.mark.parametrize(("wanted", "present"), [(True, None), (True, "0"), (False, "1")])
def test_a_container_never_changes_between_privileged_and_unprivileged(wanted, present):
    with pytest.raises(InputError, match="cannot change between privileged and unprivileged"):
        container.host_state(variables(container_unprivileged=wanted), facts(conf(unprivileged=present)))


@pytest.mark.parametrize(
    ("kind", "says"),
    [("absent", "the host has no /dev/nvidiactl"), ("file", "is no device node"), ("directory", "is no")],
)
def test_a_node_that_the_host_lacks_is_an_error_before_anything_is_made(kind, says):
    with pytest.raises(CheckError, match=says) as caught:
        container.host_state(variables(), facts(running=False, devices=("special file", kind)))
    assert "nvidia-modprobe" in caught.value.remedy


@pytest.mark.parametrize(
    "wrong",
    [
        {"container_vmid": 99},
        {"container_vmid": None},
        {"container_hostname": "under_score"},
        {"container_hostname": "-x"},
        {"container_device_mode": "666"},
        {"container_memory_mib": 8},
        {"container_mounts": [{"source": "relative", "target": "/x"}]},
        {"container_mounts": [{"source": "/x", "target": "/y", "ro": True}]},
    ],
)
def test_values_that_pct_would_refuse_are_input_errors(wrong):
    with pytest.raises(InputError) as caught:
        variables(**wrong)
    assert caught.value.where == "here"


# inside


def test_inside_systemd_must_be_up_and_every_node_open():
    state = container.inside_state(variables(), [])
    booted, opens = state.resources
    assert booted.kind == "booted"
    assert "sys-kernel-debug.mount" in booted.spec["tolerates"] and "sglang.service" in booted.spec["tolerates"]
    assert opens.spec["paths"] == DEVICES and "pct reboot 200" in opens.spec["remedy"]


def test_a_mount_is_read_only_unless_it_is_said():
    assert Mount(source="/a", target="/b").option() == "/a,mp=/b,ro=1"
