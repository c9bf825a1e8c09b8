"""What the peers are told by the harness, in the environment; this file stands alone, each peer has its own Python."""

import os
import pathlib

HERE = pathlib.Path(__file__).resolve().parent.parent
VARS = HERE / "vars.yml"
TEMPLATES = HERE / "templates"

WORK = pathlib.Path(os.environ["BENCH_WORK"])
IDENTITY = WORK / "keys/id"
KNOWN_HOSTS = WORK / "keys/known_hosts"
SSH_CONFIG = WORK / "ssh_config"
CONTROL = WORK / "control"

COUNT = int(os.environ["BENCH_HOSTS"])
OFFSET = int(os.environ.get("BENCH_OFFSET", "0"))  # added to a host's number: its address behind the delaying proxy
PORT = 4022


def address(number):
    return f"127.0.1.{number + OFFSET}"


def label(number):
    return f"h{number:02d}"
