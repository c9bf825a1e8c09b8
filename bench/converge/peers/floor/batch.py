"""The floor: render everything, then one exec a host with the whole program on stdin.

batch.py ssh | mux | paramiko [--dry]
"""

import json
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import settings

COMMAND = "/usr/bin/python3 -IS -"
AGENT = (pathlib.Path(__file__).parent / "agent.py").read_text()
VARS = yaml.load(settings.VARS.read_text(), Loader=yaml.CSafeLoader)
JINJA = Environment(
    loader=FileSystemLoader(settings.TEMPLATES), trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
)
TEMPLATES = [(item, JINJA.get_template(item["src"])) for item in VARS["templates"]]


def program(label, dry):
    rendered = [
        {"dest": item["dest"], "mode": item["mode"], "content": template.render(VARS, host_label=label)}
        for item, template in TEMPLATES
    ]
    spec = {
        "apply": not dry,
        "group": VARS["svc_group"],
        "user": VARS["svc_user"],
        "directories": VARS["directories"],
        "files": rendered + VARS["files"],
        "lines": VARS["lines"],
        "venv": VARS["venv"],
        "guards": VARS["guards"],
        "link": VARS["link"],
    }
    return f"SPEC = {json.dumps(spec)!r}\n{AGENT}".encode()


def by_ssh(number, dry, mux):
    argv = ["ssh", "-F", str(settings.SSH_CONFIG)]
    if mux:
        argv += ["-o", "ControlMaster=auto", "-o", "ControlPersist=60s", "-S", f"{settings.CONTROL}/floor-%h"]
    argv += [settings.address(number), COMMAND]
    ran = subprocess.run(argv, input=program(settings.label(number), dry), stdout=subprocess.PIPE, check=True)
    return json.loads(ran.stdout)["changed"]


def by_paramiko(number, dry):
    import paramiko

    client = paramiko.SSHClient()
    client.load_host_keys(str(settings.KNOWN_HOSTS))
    client.connect(
        settings.address(number),
        settings.PORT,
        "root",
        key_filename=str(settings.IDENTITY),
        allow_agent=False,
        look_for_keys=False,
    )
    stdin, stdout, _ = client.exec_command(COMMAND)
    stdin.write(program(settings.label(number), dry))
    stdin.channel.shutdown_write()
    answer = stdout.read()
    client.close()
    return json.loads(answer)["changed"]


def main():
    how, dry = sys.argv[1], "--dry" in sys.argv
    reach = {
        "ssh": lambda number: by_ssh(number, dry, False),
        "mux": lambda number: by_ssh(number, dry, True),
        "paramiko": lambda number: by_paramiko(number, dry),
    }[how]
    numbers = range(1, settings.COUNT + 1)
    with ThreadPoolExecutor(settings.COUNT) as pool:
        for number, changed in zip(numbers, pool.map(reach, numbers), strict=True):
            print(f"{settings.label(number)} changed={len(changed)}")


if __name__ == "__main__":
    main()
