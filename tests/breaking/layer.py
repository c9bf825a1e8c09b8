"""What lies over this machine's root in every host: an apt that knows one local repository, stand-ins for
systemctl and systemd-run (nothing is booted here), and the state in which the rich role finds a machine.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from pathlib import Path

from . import debs
from .hosts import HERE, SSHD_CONFIG

PACKAGE = "blackstart-sample"
PACKAGE_USER = "sampled"
DYING_PYTHON = "/usr/local/bin/dying-python"
TOOL_FILES = 12
TREE_FILES = 20
SET_FILES = ("one", "two", "three", "four")

APT_CONF = """\
Dir::Etc::sourcelist "/srv/repository/sources.list";
Dir::Etc::sourceparts "/srv/repository/none";
Dir::State::lists "/var/lib/apt/lists-of-this-host";
APT::Sandbox::User "root";
"""

# Units as data: a folder for each, holding what systemctl would say. `restart` notes what the unit was started with,
# so that a test can tell whether it was restarted after the last change.
SYSTEMCTL = """\
#!/bin/sh
# A stand-in for systemctl on a host that is not booted.
set -eu
state=/var/lib/stand-in-systemd value=
for unit; do [ "$unit" != --value ] || value=yes; done
say() { cat "$state/$unit/$1" 2>/dev/null || echo "$2"; }
put() { mkdir -p "$state/$unit"; echo "$2" >"$state/$unit/.$1" && mv "$state/$unit/.$1" "$state/$unit/$1"; }
begin() {
  put started-with "$(sha256sum /srv/rich/settings.conf 2>/dev/null | cut -d' ' -f1)"
  put active active
  put invocation "$(tr -d - </proc/sys/kernel/random/uuid)"
}
case $1 in
show)
  active=$(say active inactive)
  [ ! -e "/run/stand-in-jobs/$unit" ] || ! kill -0 "$(cat "/run/stand-in-jobs/$unit")" 2>/dev/null || active=active
  [ -z "$value" ] || { echo "$active"; exit; }
  printf 'LoadState=loaded\\nActiveState=%s\\nSubState=%s\\nUnitFileState=%s\\nNeedDaemonReload=no\\n' \\
    "$active" "$active" "$(say enabled disabled)"
  printf 'InvocationID=%s\\nResult=success\\n' "$(say invocation "")" ;;
start | restart) begin ;;
stop) put active inactive ;;
enable) put enabled enabled ;;
disable) put enabled disabled ;;
daemon-reload) ;;
is-system-running) echo running ;;
*) echo "the stand-in for systemctl does not know $1" >&2; exit 1 ;;
esac
"""

SYSTEMD_RUN = """\
#!/bin/sh
# A stand-in for systemd-run: the transient unit is a session of its own.
set -eu
while [ "${1#--}" != "$1" ]; do
  case $1 in --unit | --description) [ "$1" != --unit ] || unit=$2; shift ;; esac
  shift
done
mkdir -p /run/stand-in-jobs
setsid "$@" </dev/null >/dev/null 2>&1 &
echo $! >"/run/stand-in-jobs/.$unit" && mv "/run/stand-in-jobs/.$unit" "/run/stand-in-jobs/$unit"
"""

CONFFILE = "# of the package\nshipped = yes\n# end\nafter = yes\n"
POSTINST = f"""\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
  id {PACKAGE_USER} >/dev/null 2>&1 || useradd --system --user-group --no-create-home {PACKAGE_USER}
  chown {PACKAGE_USER}:{PACKAGE_USER} /var/lib/{PACKAGE}
fi
"""


def make(folder: Path, *, booted: bool) -> Path:
    """Write the layer of hosts that seem to be booted with systemd, or of those that do not; returns the folder."""
    writer = _Layer(folder)
    if booted:
        writer.text("etc/breaking-booted", "")
    writer.text("etc/breaking-sshd_config", SSHD_CONFIG)
    writer.text("etc/apt/apt.conf.d/zz-this-host", APT_CONF)
    writer.text("usr/bin/systemctl", SYSTEMCTL, 0o755)
    writer.text("usr/bin/systemd-run", SYSTEMD_RUN, 0o755)
    writer.text(DYING_PYTHON.lstrip("/"), (HERE / "dying_python.py").read_text(), 0o755)
    writer.text("var/lib/stand-in-systemd/sample.service/active", "active\n")
    writer.text("var/lib/stand-in-systemd/sample.service/invocation", "0" * 32 + "\n")
    writer.text("var/lib/stand-in-systemd/sample.service/started-with", "nothing yet\n")
    _repository(writer)
    _found_by_the_role(writer)
    return folder


class _Layer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def bytes(self, path: str, content: bytes, mode: int = 0o644) -> Path:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        place.write_bytes(content)
        place.chmod(mode)
        return place

    def text(self, path: str, content: str, mode: int = 0o644) -> Path:
        return self.bytes(path, content.encode(), mode)


def _repository(writer: _Layer) -> None:
    built = [_deb(writer, f"{PACKAGE}-base", "", {}, {})]
    built.append(
        _deb(
            writer,
            PACKAGE,
            f"{PACKAGE}-base",
            {f"etc/{PACKAGE}.conf": CONFFILE, f"var/lib/{PACKAGE}/README": "kept here\n"},
            {"conffiles": f"/etc/{PACKAGE}.conf\n", "postinst": POSTINST},
        )
    )
    writer.text("srv/repository/Packages", "\n".join(built))
    writer.text("srv/repository/sources.list", "deb [trusted=yes] file:/srv/repository ./\n")


def _deb(writer: _Layer, name: str, depends: str, files: dict[str, str], control: dict[str, str]) -> str:
    """Build a package into the repository; returns its paragraph of the index."""
    staged = _Layer(writer.folder.with_name(f"{writer.folder.name}-{name}"))
    described = f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\n"
    described += f"Depends: {depends}\n" if depends else ""
    described += "Description: a sample\n"
    staged.text("DEBIAN/control", described)
    for file, content in {f"usr/share/{name}/note": "a sample\n", **files}.items():
        staged.text(file, content)
    for file, content in control.items():
        staged.text(f"DEBIAN/{file}", content, 0o755 if file == "postinst" else 0o644)
    place = writer.folder / "srv" / "repository" / f"{name}_1.0_all.deb"
    place.parent.mkdir(parents=True, exist_ok=True)
    argv = ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(staged.folder), str(place)]
    subprocess.run(argv, check=True, capture_output=True)
    return debs.paragraph(place, place.name)


def tool_archive() -> bytes:
    """A tar of some files, the same each time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for number in range(TOOL_FILES):
            content = f"part {number}\n".encode() * 2000
            member = tarfile.TarInfo(f"tool/part-{number}")
            member.size = len(content)
            member.mode = 0o755
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _found_by_the_role(writer: _Layer) -> None:
    writer.text("etc/rich/old.conf", "old = yes\n", 0o600)
    writer.text("etc/rich/modules", "loop\n# end\nlast\n")
    writer.text("etc/rich/obsolete", "nobody needs this\n")
    for number in range(5):
        writer.text(f"etc/rich/old-tree/folder/file-{number}", f"{number}\n")
    (writer.folder / "etc/rich/link").symlink_to("modules")
    for number in range(TREE_FILES):
        writer.text(f"srv/rich-tree/folder-{number % 4}/file-{number}", f"{number}\n")
    for name in SET_FILES:
        writer.text(f"srv/rich-set/{name}.py", f"state = 'old'  # {name}\n" + "pass\n" * 2000)
    writer.bytes("srv/source/tool.tar", tool_archive())


def forget_python(layer: Path, *, keep_minimal: bool) -> list[str]:
    """A dpkg that knows no Python, or python3-minimal only, and a repository that has it; returns what it forgot.

    /srv/python-files in the layer lists the files that are still to be removed from the host.
    """
    status = Path("/var/lib/dpkg/status").read_text()
    paragraphs = {text.split("\n", 1)[0].removeprefix("Package: "): text for text in status.strip().split("\n\n")}
    all_python = [name for name in _needs(paragraphs, "python3") if "python3" in name]
    forgotten = [name for name in all_python if not (keep_minimal and name.endswith("-minimal"))]
    gone = _with_dependents(paragraphs, forgotten)
    writer = _Layer(layer)
    kept = [text for name, text in paragraphs.items() if name not in gone]
    writer.text("var/lib/dpkg/status", "\n\n".join(kept) + "\n")
    files = [line for name in forgotten for line in _files_of(name)]
    writer.text("srv/python-files", "\n".join(files) + "\n")
    index = layer / "srv/repository/Packages"
    for package in debs.fetch(all_python):
        writer.bytes(f"srv/repository/{package.name}", package.read_bytes())
        index.write_text(index.read_text() + "\n" + debs.paragraph(package, package.name))
    return forgotten


def _needs(paragraphs: dict[str, str], name: str) -> list[str]:
    """A package and all that it depends on, of those installed."""
    found: list[str] = []
    todo = [name]
    while todo:
        here = todo.pop()
        if here in paragraphs and here not in found:
            found.append(here)
            todo += _depends(paragraphs[here])
    return found


def _with_dependents(paragraphs: dict[str, str], names: list[str]) -> set[str]:
    gone = set(names)
    while True:
        more = {name for name, text in paragraphs.items() if name not in gone and gone & set(_depends(text))}
        if not more:
            return gone
        gone |= more


def _depends(paragraph: str) -> list[str]:
    fields = re.findall(r"^(?:Pre-)?Depends: (.*)$", paragraph, re.M)
    return [word.split()[0].split(":")[0] for field in fields for word in re.split(r"[,|]", field) if word.strip()]


def _files_of(package: str) -> list[str]:
    (listed,) = [path for path in Path("/var/lib/dpkg/info").glob(f"{package}*.list") if _is_list_of(path, package)]
    return [line for line in listed.read_text().splitlines() if Path(line).is_symlink() or Path(line).is_file()]


def _is_list_of(path: Path, package: str) -> bool:
    return path.name.removesuffix(".list").split(":")[0] == package
