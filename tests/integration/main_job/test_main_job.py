"""From nothing to a served, patched, measured model; and what a second run, a drift and bad input do to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT, Inv, Ran

pytestmark = pytest.mark.sandbox

UNIT = "/etc/systemd/system/sglang.service"
SITE = "/root/ml-env/lib/python3.11/site-packages"
InContainer = Callable[..., str]


def machines(ran: Ran) -> dict[str, Any]:
    return {machine["name"]: machine for machine in ran.json["machines"]}


def names(machine: dict[str, Any], state: str) -> list[str]:
    return [resource["name"] for resource in machine["resources"] if resource["state"] == state]


def server_pid(in_container: InContainer) -> str:
    return in_container("systemctl", "show", "-p", "MainPID", "--value", "sglang.service").strip()


def test_the_first_run_ends_with_a_completion_that_says_it_is_simulated(served: Ran) -> None:
    document = served.json
    assert document["inventory"] == {"name": "sandbox", "simulated": True}
    (completion,) = document["completions"]
    assert "SIMULATED" in completion["text"]
    assert "SIMULATED" in completion["answer"]["system_fingerprint"]
    assert completion["answer"]["usage"]["completion_tokens"] == 24


def test_a_second_run_changes_nothing_with_two_execs_a_machine_at_most(served: Ran, inv: Inv) -> None:
    ran = inv("up", "--json")
    assert ran.code == 0
    for machine in ran.json["machines"]:
        assert (machine["changed"], machine["failed"], machine["pending"]) == (0, 0, [])
        assert 1 <= machine["execs"] <= 2


def test_drift_is_named_exactly_and_mended_without_a_restart(served: Ran, inv: Inv, in_container: InContainer) -> None:
    before = server_pid(in_container)
    in_container("rm", UNIT)
    (wheel,) = in_container("sh", "-c", "echo /srv/wheelhouse/sglang-*.whl").split()
    in_container("/root/ml-env/bin/python", "-m", "pip", "install", "-q", "--force-reinstall", "--no-deps", wheel)

    checked = machines(inv("up", "--check", "--diff", "--json"))
    assert names(checked["glm5"], "change") == ["patches", f"file {UNIT}"]
    assert checked["pve1"]["change"] == checked["pve1"]["unknown"] == checked["glm5"]["unknown"] == 0
    assert checked["glm5"]["pending"] == ["restart sglang.service"]
    assert in_container("sh", "-c", f"ls {UNIT} 2>/dev/null || echo gone").strip() == "gone"

    mended = machines(inv("up", "--json"))
    assert names(mended["glm5"], "changed") == ["patches", f"file {UNIT}"]
    assert mended["glm5"]["pending"] == ["restart sglang.service"]
    assert server_pid(in_container) == before

    again = machines(inv("up", "--json"))
    assert again["glm5"]["changed"] == 0
    assert again["glm5"]["pending"] == ["restart sglang.service"], "it is owed until it is done"

    restarted = machines(inv("up", "--restart", "--json"))
    assert names(restarted["glm5"], "changed") == ["restart sglang.service"]
    assert server_pid(in_container) != before
    assert machines(inv("up", "--json"))["glm5"]["pending"] == []


GATE = """
import ast, types
source = open(SITE + "/sglang/srt/model_executor/model_runner.py").read()
gate = next(n for n in ast.walk(ast.parse(source)) if getattr(n, "name", "") == "_should_run_flashinfer_autotune")
module = ast.Module([gate], [])
torch = types.SimpleNamespace(cuda=types.SimpleNamespace(get_device_capability=lambda *a: CAPABILITY))
names = {"torch": torch}
exec(compile(module, "gate", "exec"), names)
no = lambda: False
arguments = types.SimpleNamespace(
    disable_flashinfer_autotune=False, moe_runner_backend="flashinfer_cutlass", speculative_algorithm=None
)
runner = types.SimpleNamespace(
    server_args=arguments,
    is_draft_worker=False,
    spec_algorithm=types.SimpleNamespace(is_eagle=no, is_standalone=no, is_ngram=no),
)
print(names["_should_run_flashinfer_autotune"](runner))
"""


def test_the_installed_gate_lets_cutlass_through_on_sm120(served: Ran, in_container: InContainer) -> None:
    for capability, expected in (((12, 0), "True"), ((8, 0), "False")):
        text = f"SITE = {SITE!r}\nCAPABILITY = {capability!r}\n{GATE}"
        assert in_container("/usr/bin/python3", "-", text=text).strip() == expected


GUARD = """
import ast, types
source = open(SITE + "/sglang/srt/models/deepseek_common/attention_forward_methods/forward_mha.py").read()
tree = ast.parse(source)
name = "_get_mla_kv_buffer_from_fp8_for_nsa"
function = next(n for n in ast.walk(tree) if getattr(n, "name", "") == name)
function.returns = None
for argument in function.args.args:
    argument.annotation = None
names = {
    "torch": types.SimpleNamespace(bfloat16="bf16"),
    "TboAttnBackend": type("Tbo", (), {}),
    "dequantize_k_cache_paged": lambda pool, indices: ("dequantised", indices),
}
exec(compile(ast.Module([function], []), "guard", "exec"), names)
WIDTH = 576
pool = types.SimpleNamespace(get_key_buffer=lambda layer: types.SimpleNamespace(shape=(64, 1, WIDTH)))
batch = types.SimpleNamespace(
    attn_backend=types.SimpleNamespace(forward_metadata=object()),
    token_to_kv_pool=pool,
    fetch_mha_one_shot_kv_indices=lambda: "one-shot indices",
)
layer = types.SimpleNamespace(
    attn_mha=types.SimpleNamespace(layer_id=0),
    kv_lora_rank=512,
    qk_rope_head_dim=64,
    _get_mla_kv_buffer=lambda indices, dtype, batch: ("raw", indices, dtype),
)
print(names[name](layer, batch))
"""


def test_the_installed_guard_falls_back_without_the_attribute(served: Ran, in_container: InContainer) -> None:
    said = in_container("/usr/bin/python3", "-", text=f"SITE = {SITE!r}\n{GUARD}").strip()
    assert said == "('raw', 'one-shot indices', 'bf16')"


def test_the_ladder_counts_exactly_and_is_kept_as_json_lines(served: Ran, inv: Inv) -> None:
    ran = inv("bench.ladder", "--levels", "1,64", "--series", "test-ladder", "--json")
    assert ran.code == 0, ran.out + ran.err
    kept = ROOT / "inventory" / "sandbox" / "series" / "test-ladder.jsonl"
    try:
        levels = ran.json["levels"]
        assert [(level["prompts"], level["total_output_tokens"]) for level in levels] == [(1, 236), (64, 3731)]
        records = [json.loads(line) for line in kept.read_text().splitlines()]
        assert [record["total_output_tokens"] for record in records] == [236, 3731]
        assert all(record["simulated"] and record["output_throughput"] > 0 for record in records)
    finally:
        kept.unlink(missing_ok=True)


def test_half_a_line_of_an_earlier_ladder_spoils_no_later_one(served: Ran, inv: Inv, in_container: InContainer) -> None:
    folder = "/var/lib/blackstart/bench"
    in_container("sh", "-c", f'mkdir -p {folder} && printf \'{{"completed": 1, "dur\' > {folder}/test-torn-1.jsonl')
    try:
        ran = inv("bench.ladder", "--levels", "1", "--series", "test-torn")
        assert ran.code == 0, ran.out + ran.err
    finally:
        (ROOT / "inventory/sandbox/series/test-torn.jsonl").unlink(missing_ok=True)


def test_stop_leaves_no_process_and_start_brings_it_back(served: Ran, inv: Inv, in_container: InContainer) -> None:
    assert inv("server.stop").code == 0
    left = in_container("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sglang:[:]' || true")
    assert left.strip() == "0"
    assert inv("server.status", "--json").json["machines"][0]["state"] == "inactive"
    assert "stopped already" in inv("server.stop", "--check").out
    assert "would be started" in inv("server.start", "--check").out
    started = inv("server.start")
    assert started.code == 0, started.out + started.err
    assert inv("server.status", "--json").json["machines"][0]["ready"] is True


def test_a_check_shows_what_would_be_done_to_the_server_and_touches_nothing(
    served: Ran, inv: Inv, in_container: InContainer
) -> None:
    def present() -> tuple[str, str]:
        return server_pid(in_container), in_container("cat", "/etc/systemd/system/sglang.service")

    before = present()
    restart = inv("server.restart", "--profile", "glm-5-nvfp4-latency", "--check", "--diff")
    assert restart.code == 0, restart.out + restart.err
    assert "would be restarted" in restart.out and "+X-Blackstart-Profile=glm-5-nvfp4-latency" in restart.out
    assert restart.out.count("change ") == 3 and "pending" not in restart.out
    assert "would be stopped" in inv("server.stop", "--check").out
    assert "runs already" in inv("server.start", "--check").out
    assert present() == before


def test_start_from_another_profile_restarts_nothing_that_serves(
    served: Ran, inv: Inv, in_container: InContainer
) -> None:
    pid = server_pid(in_container)
    started = inv("server.start", "--profile", "glm-5-nvfp4-latency", "--json")
    assert started.code == 0, started.out + started.err
    assert "restart" in started.json["machines"][0]["pending"]
    assert server_pid(in_container) == pid
    restarted = inv("server.restart", "--json")
    assert restarted.code == 0, restarted.out + restarted.err
    assert "pending" not in restarted.json["machines"][0]
    assert server_pid(in_container) != pid


class TestBadInput:
    """One clear error each, exit code 2 (1 where it is a machine that fails), and nothing touched."""

    @pytest.fixture(autouse=True)
    def untouched(self, served: Ran, in_container: InContainer) -> Any:
        journal = "cat /var/lib/blackstart/journal.jsonl | wc -l"
        before = in_container("sh", "-c", journal), server_pid(in_container)
        yield
        assert (in_container("sh", "-c", journal), server_pid(in_container)) == before

    @pytest.fixture
    def inventory(self, tmp_path: Path) -> Path:
        import shutil

        copy = tmp_path / "site"
        shutil.copytree(ROOT / "inventory" / "sandbox", copy, ignore=shutil.ignore_patterns("series"))
        return copy

    def refused(self, ran: Ran, code: int, *words: str) -> None:
        assert ran.code == code, ran.out + ran.err
        assert ran.err.count("error:") + ran.out.count("error:") == 1
        assert "Traceback" not in ran.out + ran.err
        for word in words:
            assert word in ran.out + ran.err

    def test_an_unknown_profile_lists_the_known_ones(self, inv: Inv) -> None:
        self.refused(inv("server.restart", "--profile", "nope"), 2, "nope", "glm-5-nvfp4-latency")

    def test_a_restart_with_what_is_no_port(self, inv: Inv) -> None:
        self.refused(inv("server.restart", "--set", "server_flags={port: 30000x}"), 2, "30000x", "1 to 65535")

    def test_a_restart_on_a_port_that_another_holds(self, inv: Inv, in_container: InContainer) -> None:
        in_container("systemd-run", "--unit=holder", "python3", "-m", "http.server", "31000")
        try:
            in_container("sh", "-c", "until ss -Hltn 'sport = 31000' | grep -q .; do sleep 0.1; done")
            self.refused(inv("server.restart", "--set", "server_flags={port: 31000}"), 1, "31000", "holder.service")
        finally:
            in_container("systemctl", "stop", "holder")

    def test_a_restart_whose_unit_file_cannot_be_written(self, inv: Inv, in_container: InContainer) -> None:
        file = "/etc/systemd/system/sglang.service"
        in_container("sh", "-c", f"mv {file} {file}.aside && ln -s /dev/null {file}")
        try:
            self.refused(inv("server.restart"), 1, file, "not a file")
        finally:
            in_container("mv", f"{file}.aside", file)

    def test_malformed_yaml(self, inv: Inv, inventory: Path) -> None:
        (inventory / "host_vars" / "glm5.yml").write_text("container_vmid: [200\n")
        self.refused(inv("up", "-i", str(inventory)), 2, "host_vars/glm5.yml:", "not valid YAML")

    def test_an_unknown_key(self, inv: Inv, inventory: Path) -> None:
        (inventory / "host_vars" / "glm5.yml").write_text("container_vmid: 200\ncontainer_memroy_mib: 1\n")
        self.refused(inv("up", "-i", str(inventory)), 2, "host_vars/glm5.yml:2", "container_memory_mib")

    def test_an_unreachable_host(self, inv: Inv) -> None:
        self.refused(inv("up", "--set", "port=9"), 1, "cannot be reached", "refused")

    def test_a_wrong_host_key(self, inv: Inv, inventory: Path) -> None:
        known = inventory / "known_hosts"
        hosts = inventory / "hosts.yml"
        import subprocess

        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(inventory / "other")], check=True)
        key = (inventory / "other.pub").read_text().split()[:2]
        text = hosts.read_text()
        address = text.split("address: ")[1].split()[0]
        known.write_text(f"{address} {' '.join(key)}\n")
        self.refused(inv("up", "-i", str(inventory), "--set", f"known_hosts={known}"), 1, "host key", "SHA256:")

    def test_a_missing_template(self, inv: Inv) -> None:
        template = ROOT / "templates" / "server" / "sglang.service.j2"
        aside = template.with_suffix(".aside")
        template.rename(aside)
        try:
            self.refused(inv("up"), 2, "sglang.service.j2", "missing")
        finally:
            aside.rename(template)

    def test_an_id_of_somebody_elses_container(self, inv: Inv, in_container: InContainer) -> None:
        from sandbox import host
        from sandbox.paths import Paths

        conf = "/etc/pve/lxc/777.conf"
        paths, address = Paths.default(), host.status()["address"]
        import subprocess

        ssh = ["ssh", "-o", f"UserKnownHostsFile={paths.known_hosts}", "-i", str(paths.client_key), f"root@{address}"]
        text = "arch: amd64\nhostname: somebody\nostype: debian\nunprivileged: 1\n"
        subprocess.run([*ssh, f"cat > {conf}"], input=text, text=True, check=True)
        try:
            self.refused(inv("up", "--set", "container_vmid=777"), 2, "777", "somebody", "container_adopt")
        finally:
            subprocess.run([*ssh, f"rm {conf}"], check=True)

    def test_a_port_in_use(self, inv: Inv, in_container: InContainer) -> None:
        listener = (
            "import socket,sys; s=socket.create_server(('127.0.0.1', 30555)); print('up', flush=True); sys.stdin.read()"
        )
        in_container(
            "systemd-run",
            "--quiet",
            "--unit",
            "squatter",
            "/usr/bin/python3",
            "-c",
            listener.replace("sys.stdin.read()", "s.accept()"),
        )
        try:
            self.refused(
                inv("up", "--set", "server_flags={port: 30555, model-path: /srv/models/glm-5-nvfp4}"),
                2,
                "30555",
                "squatter.service",
            )
        finally:
            in_container("systemctl", "stop", "squatter")

    def test_a_limit_that_matches_nothing(self, inv: Inv) -> None:
        self.refused(inv("up", "-l", "nobody"), 2, "nobody", "glm5")
