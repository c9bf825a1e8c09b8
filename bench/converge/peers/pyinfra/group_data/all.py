import pathlib
import sys

import yaml

sys.path.insert(0, str(pathlib.Path.cwd().parent))  # the harness runs pyinfra in its folder
import settings

globals().update(yaml.safe_load(settings.VARS.read_text()))
ssh_port = settings.PORT
ssh_user = "root"
ssh_key = str(settings.IDENTITY)
ssh_known_hosts_file = str(settings.KNOWN_HOSTS)
del pathlib, sys, yaml, settings
