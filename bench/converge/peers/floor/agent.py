"""Runs on the host, from stdin: checks (and with `apply` converges) all 25 resources; prints one JSON line.

Stdlib only; no diffs, no journal, no lock, no errors that explain themselves: the least that one exec can do.
"""

# pathlib would cost the host more than the checks:
# ruff: noqa: PTH101, PTH103, PTH104, PTH108, PTH110, PTH112, PTH114, PTH115, PTH116, PTH123, PTH207, PTH211

import glob
import grp
import json
import os
import pwd
import subprocess


def found(lookup, name):
    try:
        return lookup(name)
    except KeyError:
        return None


def run(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)


def owned(path, mode, user, group, apply):
    """Whether mode, owner or group differ; with `apply` they are set."""
    wanted_user, wanted_group = found(pwd.getpwnam, user), found(grp.getgrnam, group)
    if wanted_user is None or wanted_group is None:
        return True
    status, wanted_mode, differs = os.stat(path), int(mode, 8), False
    if (status.st_uid, status.st_gid) != (wanted_user.pw_uid, wanted_group.gr_gid):
        differs = True
        if apply:
            os.chown(path, wanted_user.pw_uid, wanted_group.gr_gid)
    if (status.st_mode & 0o7777) != wanted_mode:
        differs = True
        if apply:
            os.chmod(path, wanted_mode)
    return differs


def main(spec):
    apply, changed = spec["apply"], []

    def mark(name, differs):
        if differs:
            changed.append(name)
        return differs and apply

    if mark("group", found(grp.getgrnam, spec["group"]) is None):
        run("groupadd", "-r", spec["group"])
    if mark("user", found(pwd.getpwnam, spec["user"]) is None):
        run("useradd", "-r", "-M", "-g", spec["group"], "-s", "/usr/sbin/nologin", spec["user"])
    for item in spec["directories"]:
        path = item["path"]
        differs = not os.path.isdir(path)
        if differs and apply:
            os.makedirs(path)
        if os.path.isdir(path):
            differs = owned(path, item["mode"], item["owner"], item["group"], apply) or differs
        mark(path, differs)
    for item in spec["files"]:
        path, content = item["dest"], item["content"].encode()
        try:
            with open(path, "rb") as stream:
                differs = stream.read() != content
        except FileNotFoundError:
            differs = True
        if differs and apply:
            with open(path + ".new", "wb") as stream:
                stream.write(content)
            os.chmod(path + ".new", int(item["mode"], 8))
            os.rename(path + ".new", path)
        if os.path.exists(path):
            differs = owned(path, item["mode"], "root", "root", apply) or differs
        mark(path, differs)
    for item in spec["lines"]:
        try:
            with open(item["path"]) as stream:
                text = stream.read()
        except FileNotFoundError:
            text = ""
        if mark(item["path"], item["line"] not in text.splitlines()):
            with open(item["path"], "a") as stream:
                stream.write(("" if not text or text.endswith("\n") else "\n") + item["line"] + "\n")
    query = subprocess.run(["dpkg-query", "-W", "-f=${Status}", "rsync"], stdout=subprocess.PIPE)
    if mark("apt", b"install ok installed" not in query.stdout):
        run("apt-get", "install", "-y", "rsync")
    if mark("pip", not glob.glob(spec["venv"] + "/lib/python3*/site-packages/setuptools-*.dist-info")):
        run(spec["venv"] + "/bin/pip", "install", "setuptools")
    for item in spec["guards"]:
        if mark(item["creates"], not os.path.exists(item["creates"])):
            run("sh", "-c", item["cmd"])
    path, target = spec["link"]["path"], spec["link"]["target"]
    if mark("link", not (os.path.islink(path) and os.readlink(path) == target)):
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(target, path)
    print(json.dumps({"changed": changed}))


main(json.loads(SPEC))  # noqa: F821  the line before this program defines it
