"""What systemd makes of ExecStart= and Environment=: by its own parser where it is installed; and by its rules.

`systemd --test`, which only loads units and says what it found, is run as nobody: it refuses root.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

SYSTEMD = Path("/lib/systemd/systemd")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "s": " "}


def installed():
    return SYSTEMD.exists() and Path("/usr/bin/setpriv").exists() and os.geteuid() == 0


def parsed_by_systemd(text):
    """(argv, environment) of a service as systemd itself reads it; `$$` is what it turns into `$` when it executes."""
    with tempfile.TemporaryDirectory(prefix="unit-") as folder:  # not below pytest's, which nobody may not enter
        Path(folder).chmod(0o755)
        (Path(folder) / "probe.service").write_text(text)
        alone = Path(folder) / "probe.service.d" / "alone.conf"
        alone.parent.mkdir()
        alone.write_text("[Unit]\nDefaultDependencies=no\n")
        return _found(_loaded(folder))


def _loaded(folder):
    """What systemd says of the unit."""
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    environment = {"PATH": os.environ["PATH"], "SYSTEMD_UNIT_PATH": folder, "XDG_RUNTIME_DIR": "/tmp"}
    command = [*nobody, str(SYSTEMD), "--test", "--system", "--unit=probe.service"]
    ran = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=60)
    part = ran.stdout.split("-> Unit probe.service:", 1)[1].split("-> Unit ", 1)[0]
    assert "Load State: loaded" in part, part
    return part


def _found(part):
    command_lines = re.findall(r"^\s*Command Line: (.*)$", part, re.M)
    assignments = dict(re.findall(r"^\s*Environment: ([^=]+)=(.*)$", part, re.M))
    return [word.replace("$$", "$") for word in shell_words(command_lines[-1])], assignments


def shell_words(text):
    """The words of a line as systemd prints it: double quotes where needed, C escapes, shell characters escaped."""
    words, position = [], 0
    while position < len(text):
        if text[position] == " ":
            position += 1
            continue
        word = ""
        quoted = text[position] == '"'
        position += quoted
        while position < len(text) and text[position] != ('"' if quoted else " "):
            if text[position] == "\\":
                word, position = word + unescaped(text, position)[0], unescaped(text, position)[1]
            else:
                word, position = word + text[position], position + 1
        position += quoted
        words.append(word)
    return words


def unescaped(text, position):
    """The character of a C escape at `position`, and where it ends."""
    letter = text[position + 1]
    if letter == "x":
        return chr(int(text[position + 2 : position + 4], 16)), position + 4
    if letter.isdigit():
        return chr(int(text[position + 1 : position + 4], 8)), position + 4
    return ESCAPES.get(letter, letter), position + 2


def parsed_by_rules(line):
    """ExecStart= by systemd.service(5): quotes, C escapes, `%%` for `%`, `$$` for `$`; nothing else of both."""
    words = shell_words(line)
    for word in words:
        assert not re.search(r"(?<!%)(%%)*%(?!%)", word), f"{word!r} has a specifier"
        assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", word), f"{word!r} has a variable"
    return [word.replace("%%", "%").replace("$$", "$") for word in words]
