from io import StringIO

import settings
from pyinfra import host
from pyinfra.facts.files import File
from pyinfra.operations import apt, files, pip, server

data = host.data
ASKED = [
    "svc_user",
    "svc_group",
    "restart_sec",
    "model_path",
    "tp_size",
    "http_port",
    "mem_fraction",
    "gpus",
    "nccl",
    "uvm_disable_hmm",
    "force_p2p",
    "cgroup_majors",
    "venv",
    "rotate_period",
    "rotate_keep",
    "host_label",
]

server.group(name="group", group=data.svc_group, system=True)
server.user(
    name="user",
    user=data.svc_user,
    group=data.svc_group,
    system=True,
    create_home=False,
    ensure_home=False,
    shell="/usr/sbin/nologin",
)
for item in data.directories:
    files.directory(
        name=item["path"],
        path=item["path"],
        mode=item["mode"].lstrip("0"),
        user=item["owner"],
        group=item["group"],
    )
for item in data.templates:
    files.template(
        name=item["dest"],
        src=str(settings.TEMPLATES / item["src"]),
        dest=item["dest"],
        mode=item["mode"].lstrip("0"),
        user="root",
        group="root",
        jinja_env_kwargs={"trim_blocks": True},
        **{name: host.data.get(name) for name in ASKED},
    )
for item in data.lines:
    files.line(name=item["path"], path=item["path"], line=item["line"])
for item in data.files:
    files.put(
        name=item["dest"],
        src=StringIO(item["content"]),
        dest=item["dest"],
        mode=item["mode"].lstrip("0"),
        user="root",
        group="root",
    )
apt.packages(name="apt", packages=["rsync"])
pip.packages(name="pip", packages=["setuptools"], virtualenv=None, pip=data.venv + "/bin/pip")
for item in data.guards:
    if not host.get_fact(File, path=item["creates"]):
        server.shell(name=item["creates"], commands=[item["cmd"]])
files.link(name="link", path=data.link["path"], target=data.link["target"])
