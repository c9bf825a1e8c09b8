"""The stand-ins for what would reach the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import commands, small_commands


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(small_commands, "_STATE", tmp_path / "state")
    monkeypatch.setattr(small_commands, "_REAL_SYSCTL", "/bin/false")
    return tmp_path


def test_modules_are_remembered_and_never_loaded(capfd: pytest.CaptureFixture[str]) -> None:
    before = Path("/proc/modules").read_text() if Path("/proc/modules").exists() else ""
    assert commands.main(["/usr/sbin/modprobe", "nvidia-uvm", "uvm_disable_hmm=1"]) == 0
    assert commands.main(["modprobe", "vfio_pci"]) == 0
    assert commands.main(["modprobe", "-r", "vfio-pci"]) == 0
    capfd.readouterr()
    assert commands.main(["lsmod"]) == 0
    out, err = capfd.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["Module", "nvidia_uvm"]
    assert "SIMULATED" in err
    assert (Path("/proc/modules").read_text() if Path("/proc/modules").exists() else "") == before


def test_a_setting_is_remembered_and_shown_but_not_made(capfd: pytest.CaptureFixture[str]) -> None:
    real = Path("/proc/sys/vm/swappiness").read_text()
    assert commands.main(["sysctl", "-w", "vm.swappiness=77"]) == 0
    assert capfd.readouterr().out == "vm.swappiness = 77\n"
    assert commands.main(["sysctl", "-n", "vm.swappiness"]) == 0
    assert capfd.readouterr().out == "77\n"
    assert Path("/proc/sys/vm/swappiness").read_text() == real


def test_what_was_never_set_is_read_from_the_kernel() -> None:
    # /bin/false stands in for the real command, so that its exit code shows that it was asked.
    assert commands.main(["sysctl", "kernel.osrelease"]) == 1


def test_a_settings_file_is_read_like_sysctls_own(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = state / "90-gpu.conf"
    file.write_text("# comment\n; other\n-vm.overcommit_memory = 1\nkernel/numa_balancing=0\n\n", encoding="utf-8")
    assert commands.main(["sysctl", "-p", str(file)]) == 0
    assert capfd.readouterr().out == "vm.overcommit_memory = 1\nkernel.numa_balancing = 0\n"
    assert commands.main(["sysctl", "-q", f"--load={file}"]) == 0
    assert capfd.readouterr().out == ""


def test_pveversion_reads_as_the_real_one_and_marks_itself(capfd: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["pveversion"]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("pve-manager/9.") and "(running kernel: " in out
    assert err.startswith("SIMULATED")


def test_a_name_that_stands_for_nothing_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["/usr/bin/qm", "list"]) == 255
    assert capfd.readouterr().err == "SIMULATED qm: is not implemented in the sandbox\n"
