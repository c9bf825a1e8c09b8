#!/usr/bin/python3
"""Before each start of the server: are the patches that its profile requires in the sources that will run?

Runs on the machine, alone (stdlib, Python 3.8 or newer): usage `patch-gate SITE-PATTERN MEND PATCH...`. It compares the
hashes that the last run left in gate.json with the files, in milliseconds; on anything else than `applied`, `upstream`
or `not-applicable` for the release that is installed it ends with 1 and says how to mend it.
"""

import glob
import hashlib
import json
import os
import sys
from typing import Any, Dict, List

GATE_FILE = ".blackstart-patches/gate.json"
GOOD = ("applied", "upstream", "not-applicable")


def problem(site: str, name: str, known: Dict[str, Any]) -> str:
    """Why the server must not start as far as one patch is concerned; "" where it may."""
    record = known.get(name)
    if record is None:
        return "patch %s is required and was never looked at" % name
    if not glob.glob(os.path.join(site, "%s-%s.dist-info" % (record["package"], record["release"]))):
        return "patch %s was decided for %s %s, which is not what is installed" % (
            name,
            record["package"],
            record["release"],
        )
    if record["state"] not in GOOD:
        return "patch %s is %s" % (name, record["state"])
    for path, digest in sorted(record["files"].items()):
        if _sha256(os.path.join(site, path)) != digest:
            return "patch %s is gone: %s is not as it was left" % (name, path)
    return ""


def _sha256(path: str) -> str:
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError as error:
        return str(error)


def main(arguments: List[str]) -> int:
    pattern, mend, *names = arguments
    sites = [site for site in sorted(glob.glob(pattern)) if os.path.exists(os.path.join(site, GATE_FILE))]
    known: Dict[str, Any] = {}
    if sites:
        with open(os.path.join(sites[-1], GATE_FILE)) as stream:
            known = json.load(stream)["patches"]
    problems = [found for found in (problem(sites[-1] if sites else "", name, known) for name in names) if found]
    for found in problems:
        print("patch-gate: %s; mend it with: %s" % (found, mend), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
