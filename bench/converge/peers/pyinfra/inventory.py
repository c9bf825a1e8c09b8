import pathlib
import sys

sys.path.insert(0, str(pathlib.Path.cwd().parent))  # the harness runs pyinfra in its folder
import settings

hosts = [(settings.address(number), {"host_label": settings.label(number)}) for number in range(1, settings.COUNT + 1)]
