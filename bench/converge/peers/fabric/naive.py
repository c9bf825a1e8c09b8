"""Plain Fabric, as people write it by hand: one or two run() or put() a resource, a thread a host.

naive.py [--dry]
"""

import hashlib
import io
import pathlib
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor

import yaml
from fabric import Config, Connection
from jinja2 import Environment, FileSystemLoader, StrictUndefined

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import settings

VARS = yaml.safe_load(settings.VARS.read_text())
JINJA = Environment(
    loader=FileSystemLoader(settings.TEMPLATES), trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
)
quote = shlex.quote


class Host:
    def __init__(self, connection, label, dry):
        self.connection = connection
        self.label = label
        self.dry = dry
        self.changed = []

    def run(self, command):
        return self.connection.run(command, hide=True, warn=True, in_stream=False)

    def need(self, name, probe, fix):
        if self.run(probe).ok:
            return
        self.changed.append(name)
        if not self.dry:
            self.must(name, fix)

    def must(self, name, command):
        ran = self.run(command)
        if ran.failed:
            raise RuntimeError(f"{self.label}: {name}: {ran.stderr}")

    def put(self, dest, text, mode):
        wanted = [mode.lstrip("0"), "root:root", hashlib.sha256(text.encode()).hexdigest()]
        found = self.run(f"stat -c '%a %U:%G' {quote(dest)} && sha256sum {quote(dest)}")
        if found.ok and found.stdout.split()[:3] == wanted:
            return
        self.changed.append(dest)
        if not self.dry:
            self.connection.put(io.BytesIO(text.encode()), dest)
            self.must(dest, f"chown root:root {quote(dest)} && chmod {mode} {quote(dest)}")


def converge(host):
    user, group = VARS["svc_user"], VARS["svc_group"]
    host.need("group", f"getent group {group}", f"groupadd -r {group}")
    host.need("user", f"getent passwd {user}", f"useradd -r -M -g {group} -s /usr/sbin/nologin {user}")
    for item in VARS["directories"]:
        path, mode, owner = quote(item["path"]), item["mode"], f"{item['owner']}:{item['group']}"
        host.need(
            item["path"],
            f"test \"$(stat -c '%a %U:%G' {path} 2>/dev/null)\" = '{mode.lstrip('0')} {owner}'",
            f"mkdir -p {path} && chown {owner} {path} && chmod {mode} {path}",
        )
    for item in VARS["templates"]:
        text = JINJA.get_template(item["src"]).render(VARS, host_label=host.label)
        host.put(item["dest"], text, item["mode"])
    for item in VARS["lines"]:
        line, path = quote(item["line"]), quote(item["path"])
        host.need(item["path"], f"grep -qxF {line} {path}", f"echo {line} >> {path}")
    for item in VARS["files"]:
        host.put(item["dest"], item["content"], item["mode"])
    status = "dpkg-query -W -f='${Status}' rsync | grep -q 'install ok installed'"
    host.need("apt", status, "apt-get install -y rsync")
    pip = f"{VARS['venv']}/bin/pip"
    host.need("pip", f"{pip} show -q setuptools", f"{pip} install setuptools")
    for item in VARS["guards"]:
        host.need(item["creates"], f"test -e {quote(item['creates'])}", item["cmd"])
    path, target = quote(VARS["link"]["path"]), quote(VARS["link"]["target"])
    host.need("link", f'test "$(readlink {path})" = {target}', f"ln -sfn {target} {path}")
    return host.changed


def one(number):
    config = Config(overrides={"load_ssh_configs": False})
    keys = {"key_filename": str(settings.IDENTITY), "allow_agent": False, "look_for_keys": False}
    reached = Connection(settings.address(number), user="root", port=settings.PORT, config=config, connect_kwargs=keys)
    with reached as connection:
        return converge(Host(connection, settings.label(number), "--dry" in sys.argv))


def main():
    numbers = range(1, settings.COUNT + 1)
    with ThreadPoolExecutor(settings.COUNT) as pool:
        for number, changed in zip(numbers, pool.map(one, numbers), strict=True):
            print(f"{settings.label(number)} changed={len(changed)}")


if __name__ == "__main__":
    main()
