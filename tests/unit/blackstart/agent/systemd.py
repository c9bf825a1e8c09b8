"""A systemd that is systemctl on one unit, and that no more than a handful of properties."""

from blackstart.agent.run import Ran

UNIT = "x.service"


class Systemd:
    """systemctl on one unit that is only a handful of properties."""

    def __init__(self):
        self.enabled = "disabled"
        self.active = "inactive"
        self.load = "loaded"
        self.reload = "no"
        self.invocation = ""
        self.runs = 0
        self.called = []
        self.patience = {}
        self.broken = ""

    def start(self):
        self.runs += 1
        self.active, self.invocation = "active", f"run{self.runs}"

    def run(self, argv, timeout=None):
        assert argv[0] == "systemctl"
        if self.broken:
            return Ran(1, self.broken)
        if argv[1] == "show":
            return Ran(0, self.show())
        self.called.append(" ".join(argv[1:]))
        self.patience[argv[1]] = timeout
        match argv[1]:
            case "start" | "restart":
                self.start()
            case "stop":
                self.active, self.invocation = "inactive", ""
            case "enable":
                self.enabled = "enabled"
            case "disable":
                self.enabled = "disabled"
            case "daemon-reload":
                self.reload, self.load = "no", "loaded"
        return Ran(0, "")

    def show(self):
        shown = {
            "LoadState": self.load,
            "ActiveState": self.active,
            "UnitFileState": "" if self.load == "not-found" else self.enabled,
            "NeedDaemonReload": self.reload,
            "InvocationID": self.invocation,
            "Result": "success",
        }
        return "".join(f"{key}={value}\n" for key, value in shown.items())
