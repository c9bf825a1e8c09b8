#!/usr/bin/python3
"""A stand-in for nvidia-smi on a host with 8 RTX PRO 6000. Whole in this one file: a guest may be given a copy.

The topology and the identities are those of a real host (driver 595.58.03); load and power are made up. It marks
itself: a line SIMULATED on standard error, and in the title of the table.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

DRIVER = "595.58.03"
CUDA = "13.2"
NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
TOTAL_MIB = 97887
RESERVED_MIB = 636


@dataclass(frozen=True)
class Gpu:
    """One GPU. index is nvidia-smi's order (by bus); minor is the N of /dev/nvidiaN, which differs."""

    index: int
    bus: str
    minor: int
    uuid: str

    @property
    def bus_id(self) -> str:
        return f"00000000:{self.bus}:00.0"


GPUS = tuple(
    Gpu(index, *which)
    for index, which in enumerate(
        (
            ("06", 2, "GPU-e588912b-1368-6b4f-0e2a-0d08f8afb39b"),
            ("07", 3, "GPU-f91adc5c-e267-c673-393b-dae0b5217ca6"),
            ("75", 0, "GPU-1bb613ed-490d-5b4d-d2b2-9f386ae262e0"),
            ("76", 1, "GPU-546805a9-3012-6e47-b753-aa1d031b6d14"),
            ("84", 6, "GPU-82383b2b-58e3-1ca5-d958-f53d1752f4f6"),
            ("85", 7, "GPU-098086aa-080d-c2d7-d316-53de2adae104"),
            ("F4", 4, "GPU-f47b62c4-d007-983b-6be1-edd04f9e5dd9"),
            ("F5", 5, "GPU-53470f47-c556-d819-75b5-408c8eec03e4"),
        )
    )
)

# field -> (unit in the heading, value)
_FIELDS: Mapping[str, tuple[str, Callable[[Gpu], str]]] = {
    "index": ("", lambda gpu: str(gpu.index)),
    "name": ("", lambda _: NAME),
    "gpu_name": ("", lambda _: NAME),
    "uuid": ("", lambda gpu: gpu.uuid),
    "gpu_uuid": ("", lambda gpu: gpu.uuid),
    "pci.bus_id": ("", lambda gpu: gpu.bus_id),
    "gpu_bus_id": ("", lambda gpu: gpu.bus_id),
    "pci.device_id": ("", lambda _: "0x2BB510DE"),
    "count": ("", lambda _: str(len(GPUS))),
    "driver_version": ("", lambda _: DRIVER),
    "compute_cap": ("", lambda _: "12.0"),
    "persistence_mode": ("", lambda _: "Enabled"),
    "pstate": ("", lambda _: "P8"),
    "mig.mode.current": ("", lambda _: "Disabled"),
    "ecc.mode.current": ("", lambda _: "Enabled"),
    "vbios_version": ("", lambda _: "98.02.67.00.0A"),
    "temperature.gpu": ("", lambda gpu: str(26 + gpu.index % 3)),
    "memory.total": ("MiB", lambda _: str(TOTAL_MIB)),
    "memory.used": ("MiB", lambda _: "0"),
    "memory.free": ("MiB", lambda _: str(TOTAL_MIB - RESERVED_MIB + 1)),
    "memory.reserved": ("MiB", lambda _: str(RESERVED_MIB)),
    "power.draw": ("W", lambda gpu: f"{39.17 + gpu.index / 8:.2f}"),
    "power.limit": ("W", lambda _: "600.00"),
    "power.max_limit": ("W", lambda _: "600.00"),
    "power.default_limit": ("W", lambda _: "600.00"),
    "utilization.gpu": ("%", lambda _: "0"),
    "utilization.memory": ("%", lambda _: "0"),
    "clocks.sm": ("MHz", lambda _: "180"),
    "clocks.mem": ("MHz", lambda _: "405"),
    "pcie.link.gen.current": ("", lambda _: "1"),
    "pcie.link.gen.max": ("", lambda _: "5"),
    "pcie.link.width.current": ("", lambda _: "16"),
    "pcie.link.width.max": ("", lambda _: "16"),
}
_HEADINGS = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}

_LEGEND = """
Legend:

  X    = Self
"""
_LINKS = """\
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""
_PEERS = """\
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
  TNS  = Topology not supported
  NS   = Not supported
  DR   = Disabled by regkey
  U    = Unknown
"""


class UsageError(Exception):
    """What was asked for cannot be answered: (text, exit code)."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


def main(argv: Sequence[str]) -> int:
    """Run one command line (without the program's name) and return its exit code."""
    print("SIMULATED nvidia-smi: there is no GPU here", file=sys.stderr, flush=True)
    try:
        sys.stdout.write(answer(list(argv)))
    except UsageError as error:
        print(error.text)
        return error.code
    return 0


def answer(argv: list[str]) -> str:
    """The standard output for a command line. Raises UsageError."""
    if argv[:1] == ["topo"]:
        return _topology(argv[1:])
    options = _options(argv)
    gpus = _chosen(options.pop("id", None))
    if "query-gpu" in options:
        return _csv(gpus, options.pop("query-gpu"), _format(options))
    if "query-compute-apps" in options:
        names = options.pop("query-compute-apps").split(",")
        return "" if "noheader" in _format(options) else ", ".join(names) + "\n"
    if options == {"list-gpus": ""}:
        return "".join(f"GPU {gpu.index}: {NAME} (UUID: {gpu.uuid})\n" for gpu in gpus)
    if options in ({"query": ""}, {"query": "", "display": ""}):
        return _log(gpus)
    if not options:
        return _table(gpus)
    raise UsageError(f"SIMULATED nvidia-smi: '{' '.join(argv)}' is not implemented in the sandbox", 255)


_SHORT = {"-L": "list-gpus", "-q": "query", "-i": "id", "-d": "display"}
_WITH_VALUE = ("query-gpu", "query-compute-apps", "format", "id", "display")


def _options(argv: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = _SHORT.get(word, word.removeprefix("--")).partition("=")
        if word.startswith("-") and name in _WITH_VALUE:
            if not equals and not words:
                raise UsageError(f"Option {word} is missing its value.", 2)
            options[name] = value if equals else words.pop(0)
        elif word.startswith("-") and name in ("list-gpus", "query"):
            options[name] = ""
        else:
            raise UsageError(
                f"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"
                f"SIMULATED nvidia-smi: '{word}' is not implemented in the sandbox",
                255,
            )
    return options


def _format(options: dict[str, str]) -> list[str]:
    words = options.pop("format", "").split(",")
    if "csv" not in words:
        raise UsageError('"--format=" switch is missing. It must be used with "--query-*=" switches.', 2)
    return words


def _chosen(which: str | None) -> Sequence[Gpu]:
    if which is None:
        return GPUS
    found = []
    for name in which.split(","):
        named = [gpu for gpu in GPUS if name in (str(gpu.index), gpu.uuid, gpu.bus_id, gpu.bus_id.lower())]
        if not named:
            raise UsageError(f"No devices were found\n{name} is not a valid GPU id.", 6)
        found += named
    return found


def _csv(gpus: Sequence[Gpu], query: str, form: Sequence[str]) -> str:
    names = [name.strip() for name in query.split(",")]
    for name in names:
        if name not in _FIELDS:
            raise UsageError(f'Field "{name}" is not a valid field to query.\n', 2)
    with_units = "nounits" not in form
    lines = []
    if "noheader" not in form:
        lines.append(", ".join(_heading(name, with_units) for name in names))
    for gpu in gpus:
        lines.append(", ".join(_cell(gpu, name, with_units) for name in names))
    return "".join(f"{line}\n" for line in lines)


def _heading(name: str, with_units: bool) -> str:
    unit = _FIELDS[name][0]
    return _HEADINGS.get(name, name) + (f" [{unit}]" if unit and with_units else "")


def _cell(gpu: Gpu, name: str, with_units: bool) -> str:
    unit, value = _FIELDS[name]
    return value(gpu) + (f" {unit}" if unit and with_units else "")


def _topology(argv: Sequence[str]) -> str:
    if list(argv) in (["-m"], ["--matrix"]):
        return _matrix()
    if len(argv) == 2 and argv[0] == "-p2p" and argv[1] in ("r", "w", "n", "a", "p"):
        heads = "\t".join(f"GPU{gpu.index}" for gpu in GPUS)
        rows = "".join(f" GPU{a.index}\t" + "".join(f"{'X' if a is b else 'OK'}\t" for b in GPUS) + "\n" for a in GPUS)
        return f" \t\x1b[4m{heads}\t\x1b[0m\n{rows}{_LEGEND}{_PEERS}"
    raise UsageError(f"SIMULATED nvidia-smi: 'topo {' '.join(argv)}' is not implemented in the sandbox", 255)


def _matrix() -> str:
    """Two sockets of four GPUs each, in pairs below one switch."""
    heads = "\t".join(f"GPU{gpu.index}" for gpu in GPUS)
    rows = []
    for a in GPUS:
        node = a.index // 4
        cells = "\t".join(_link(a.index, b.index) for b in GPUS)
        cpus = ("0-63,128-191", "64-127,192-238")[node]
        rows.append(f"GPU{a.index}\t{cells}\t{cpus}\t{node}\t\tN/A\n")
    header = f"\t\x1b[4m{heads}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    return header + "".join(rows) + _LEGEND + _LINKS


def _link(a: int, b: int) -> str:
    if a == b:
        return " X "
    if a // 4 != b // 4:
        return "SYS"
    return "PIX" if a // 2 == b // 2 else "NODE"


def _log(gpus: Sequence[Gpu]) -> str:
    def line(depth: int, key: str, value: str) -> str:
        return f"{' ' * 4 * depth}{key}".ljust(55) + f": {value}\n"

    out = "\n==============NVSMI LOG==============\n\n"
    out += line(0, "Timestamp", time.strftime("%a %b %e %H:%M:%S %Y")) + line(0, "Driver Version", DRIVER)
    out += line(0, "CUDA Version", CUDA) + "\n" + line(0, "Attached GPUs", str(len(GPUS)))
    for gpu in gpus:
        out += f"GPU {gpu.bus_id}\n"
        out += line(1, "Product Name", NAME) + line(1, "Product Brand", "NVIDIA")
        out += line(1, "Product Architecture", "Blackwell") + line(1, "Persistence Mode", "Enabled")
        out += f"{' ' * 4}MIG Mode\n" + line(2, "Current", "Disabled") + line(2, "Pending", "Disabled")
        out += line(1, "GPU UUID", gpu.uuid) + line(1, "Minor Number", str(gpu.minor))
        out += f"{' ' * 4}PCI\n" + line(2, "Bus", f"0x{gpu.bus}") + line(2, "Device Id", "0x2BB510DE")
        out += line(2, "Bus Id", gpu.bus_id)
        out += f"{' ' * 4}FB Memory Usage\n" + line(2, "Total", f"{TOTAL_MIB} MiB")
        out += line(2, "Reserved", f"{RESERVED_MIB} MiB") + line(2, "Used", "0 MiB")
        out += line(2, "Free", f"{TOTAL_MIB - RESERVED_MIB + 1} MiB")
        out += f"{' ' * 4}BAR1 Memory Usage\n" + line(2, "Total", "131072 MiB")
        out += f"{' ' * 4}Processes".ljust(55) + ": None\n\n"
    return out


def _table(gpus: Sequence[Gpu]) -> str:
    rule = "+-----------------------------------------+------------------------+----------------------+\n"
    out = time.strftime("%a %b %e %H:%M:%S %Y       \n")
    out += f"+{'-' * 89}+\n"
    title = (
        f" NVIDIA-SMI {DRIVER} SIMULATED".ljust(35) + f"Driver Version: {DRIVER}".ljust(31) + f"CUDA Version: {CUDA}"
    )
    out += f"|{title.ljust(89)}|\n" + rule
    out += "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
    out += "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
    out += "|                                         |                        |               MIG M. |\n"
    out += f"|{'=' * 41}+{'=' * 24}+{'=' * 22}|\n"
    for gpu in gpus:
        temperature, power = (_FIELDS[name][1](gpu) for name in ("temperature.gpu", "power.draw"))
        out += f"|{gpu.index:>4}  {'NVIDIA RTX PRO 6000 Blac...':<30}{'On':>3}  |   {gpu.bus_id} Off |"
        out += "                    0 |\n"
        out += f"| N/A   {temperature}C    P8{float(power):>15.0f}W /  600W |{0:>8}MiB /{TOTAL_MIB:>7}MiB |"
        out += "      0%      Default |\n"
        out += "|                                         |                        |             Disabled |\n" + rule
    out += f"\n+{'-' * 89}+\n| Processes:{' ' * 78}|\n"
    out += "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
    out += "|        ID   ID                                                               Usage      |\n"
    out += f"|{'=' * 89}|\n|  No running processes found{' ' * 61}|\n+{'-' * 89}+\n"
    return out


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
