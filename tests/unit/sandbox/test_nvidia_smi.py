"""The stand-in nvidia-smi against a real host's output."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import nvidia_smi

SAMPLES = Path(__file__).parent / "samples"


def test_the_topology_is_the_real_hosts_to_the_byte() -> None:
    real = (SAMPLES / "nvidia_topo_m.8xRTXPRO6000.txt").read_bytes()
    assert nvidia_smi.answer(["topo", "-m"]).encode() == real


def test_index_and_minor_number_differ_as_on_the_real_host() -> None:
    wanted = re.compile(r"^(GPU 0.*|    (?:Product Name|GPU UUID|Minor Number) .*)$", re.MULTILINE)
    real = wanted.findall((SAMPLES / "nvidia_smi_q.minor.txt").read_text(encoding="utf-8"))
    assert wanted.findall(nvidia_smi.answer(["-q"])) == real


def test_a_query_in_csv() -> None:
    whole = nvidia_smi.answer(["--query-gpu=index,pci.bus_id,memory.total,power.limit", "--format=csv"])
    assert whole.splitlines()[:2] == [
        "index, pci.bus_id, memory.total [MiB], power.limit [W]",
        "0, 00000000:06:00.0, 97887 MiB, 600.00 W",
    ]
    assert len(whole.splitlines()) == 9
    bare = nvidia_smi.answer(["--query-gpu=index,memory.total", "--format=csv,noheader,nounits", "-i", "7"])
    assert bare == "7, 97887\n"


def test_the_fields_that_a_controller_asks_for_are_all_there() -> None:
    fields = (
        "index,name,uuid,pci.bus_id,memory.total,memory.used,driver_version,compute_cap,power.draw,power.limit,"
        "temperature.gpu,utilization.gpu,persistence_mode"
    )
    row = nvidia_smi.answer([f"--query-gpu={fields}", "--format=csv,noheader"]).splitlines()[2].split(", ")
    assert len(row) == 13
    assert row[7] == "12.0"


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (["--query-gpu=nope", "--format=csv"], 2, 'Field "nope" is not a valid field to query.'),
        (["--query-gpu=index"], 2, "--format="),
        (["-i", "9", "-L"], 6, "No devices were found"),
        (["topo", "-c", "1"], 255, "SIMULATED nvidia-smi: 'topo -c 1' is not implemented"),
        (["--gpu-reset"], 255, "SIMULATED nvidia-smi: '--gpu-reset' is not implemented"),
    ],
)
def test_what_it_cannot_answer(argv: list[str], code: int, text: str) -> None:
    with pytest.raises(nvidia_smi.UsageError) as caught:
        nvidia_smi.answer(argv)
    assert caught.value.code == code
    assert text in caught.value.text


def test_every_line_of_the_table_is_as_wide_as_the_real_ones_and_it_is_marked() -> None:
    lines = nvidia_smi.answer([]).splitlines()
    assert {len(line) for line in lines[1:] if line} == {91}
    assert "SIMULATED" in lines[2]


def test_a_copy_of_the_one_file_works_alone_and_marks_itself(tmp_path: Path) -> None:
    copy = tmp_path / "nvidia-smi"
    copy.write_bytes(Path(nvidia_smi.__file__).read_bytes())
    done = subprocess.run(
        [sys.executable, "-I", str(copy), "-L"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stderr.startswith("SIMULATED")
    assert len(done.stdout.splitlines()) == 8
