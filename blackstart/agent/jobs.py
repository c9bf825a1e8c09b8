"""Long work that outlives its controller. A job is a folder: the wrapper that runs it, its log, and an `exit` file.

The `exit` file, written by rename, is the only word on how it ended: a finished, a failed and a never-started systemd
unit look the same afterwards. No `exit` and nothing alive means lost, never done.
"""

import fcntl
import os
import shlex
import shutil
import subprocess
import time
from typing import List, Optional, Tuple

from .atomic import sync_folder, write_atomically
from .kind import Context, Detached, Kind, Refused, Verdict
from .run import PATH, run
from .store import Damaged
from .units import has_systemd

POLL_S = 0.1
ANSWER_S = 30.0
STALL_S = 60.0
SHOWN_LINES = 12

WRAPPER = """#!/bin/sh
cd {cwd} || exit 1
exec </dev/null >>{log} 2>&1
{exports}
{command}
status=$?
rm -rf {credentials}
echo "$status" >{exit}.new && sync {exit}.new && mv {exit}.new {exit}
"""


class Job(Kind):
    """A program that is started once and attached to by whoever comes.

    `job` names it; what it runs is part of its identity, so changed work is new work. With `creates` the job is done
    while that path is there; without it, once it has ended well. `credentials` are secrets: the program finds each as
    a file in $CREDENTIALS_DIRECTORY, never in its environment.
    """

    @property
    def folder(self) -> str:
        return self.context.store.path("jobs", self.spec["job"])

    @property
    def unit(self) -> str:
        return "blackstart-job-%s.service" % self.spec["job"]

    def _file(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _exit_status(self) -> Optional[int]:
        """None where it did not end, as far as is known. Raises Damaged."""
        content = self.world.read(self._file("exit"))
        try:
            return None if content is None else int(content)
        except ValueError:
            raise Damaged(self._file("exit"), "it holds no exit status") from None

    def check(self) -> Verdict:
        creates = self.spec.get("creates")
        status = self._exit_status()
        begun = status is None and self.world.exists(self._file("run"))
        # Of a job at work, or lost, nobody knows whether what it creates is whole.
        done = self.world.exists(creates) and not begun if creates else status == 0
        if done:
            return Verdict(False)
        return Verdict(True, "$ " + " ".join(self.spec["argv"])[:100])

    def apply(self) -> str:
        if self._exit_status() is not None:
            self._await_last_breath()
            self._start()
        elif not self._alive() and self._exit_status() is None:  # it may have ended between the two looks
            if os.path.exists(self._file("run")):
                self.context.say("the job was lost half-way; it is started anew")
            self._start()
        self._attach()
        status = self._exit_status()
        if status is None:
            self.forget_credentials()
            raise Refused("the job was lost: it is not running and left no exit status", "run again to start it anew")
        if status != 0:
            raise Refused("the job ended with %d\n%s" % (status, self._tail()), self.spec.get("remedy", ""))
        if self.spec.get("creates") and not self.world.exists(self.spec["creates"]):
            raise Refused("the job ended well, yet %s is not there" % self.spec["creates"], "its guard is wrong")
        return ""

    def predict(self) -> None:
        for path in [self.spec.get("creates"), *self.spec.get("provides", [])]:
            if path:
                self.world.would_provide(path, self.name)

    def _await_last_breath(self) -> None:
        """The exit status is there a moment before what wrote it is gone. Raises Detached."""
        while self._alive():
            self._pause()

    def _pause(self) -> None:
        if self.context.gone():
            raise Detached
        time.sleep(POLL_S)

    def _alive(self) -> bool:
        """Raises Refused where systemd does not say for ANSWER_S, and Detached."""
        asked = time.monotonic()
        while True:
            alive = self.seems_alive()
            if alive is not None:
                return alive
            self._require_patience(asked)
            self._pause()

    def _require_patience(self, asked: float) -> None:
        """Raises Refused where systemd was asked for long enough."""
        if time.monotonic() - asked > ANSWER_S:
            raise Refused(
                "systemd does not say whether the job is at work, asked for %g s" % ANSWER_S,
                "see `systemctl status %s` on this machine, then run again" % self.unit,
            )

    def seems_alive(self) -> Optional[bool]:
        """None where systemd does not answer: no word about the job."""
        if has_systemd():
            ran = run(["systemctl", "show", "-p", "ActiveState", "--value", "--", self.unit])
            if ran.status != 0:
                return None
            return ran.output.strip() in ("active", "activating", "deactivating", "reloading")
        return not os.path.exists(self._file("exit")) and self._is_locked()

    def _is_locked(self) -> bool:
        """Without systemd the job itself holds a lock, from before it begins until the kernel frees it."""
        try:
            handle = os.open(self._file("alive"), os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def _start(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder, mode=0o700)
        exports = ["export %s=%s" % (name, shlex.quote(value)) for name, value in self._environment()]
        text = WRAPPER.format(
            cwd=shlex.quote(self.spec.get("cwd", "/")),
            log=shlex.quote(self._file("log")),
            exit=shlex.quote(self._file("exit")),
            exports="\n".join(exports),
            command=" ".join(map(shlex.quote, self.spec["argv"])),
            credentials=shlex.quote(self._credentials),
        )
        try:
            write_atomically(self._file("log"), b"", 0o600, None)
            self._write_credentials()
            write_atomically(self._file("run"), text.encode(), 0o700, None)
            sync_folder(self.context.store.path("jobs"))
            self.context.store.journal(resource=self.name, job=self.spec["job"])
            self._launch()
        except (OSError, Refused):
            if self.seems_alive() is False:
                self.forget_credentials()
            raise

    @property
    def _credentials(self) -> str:
        return self.context.store.credentials(self.spec["job"])

    def _environment(self) -> "List[Tuple[str, str]]":
        own = dict(
            {"PATH": PATH, "HOME": os.environ.get("HOME", "/root"), "LANG": "C.UTF-8"}, **self.spec.get("env", {})
        )
        if self.spec.get("credentials"):
            own["CREDENTIALS_DIRECTORY"] = self._credentials
        return sorted(own.items())

    def _write_credentials(self) -> None:
        """In memory only (/run), readable by root only, gone when the job ends."""
        self.forget_credentials()
        if not self.spec.get("credentials"):
            return
        os.makedirs(self.context.store.credentials(), mode=0o700, exist_ok=True)
        os.makedirs(self._credentials, mode=0o700)
        for name, value in self.spec["credentials"].items():
            handle = os.open(os.path.join(self._credentials, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as stream:
                stream.write(value)

    def forget_credentials(self) -> None:
        shutil.rmtree(self._credentials, ignore_errors=True)

    def _launch(self) -> None:
        """What keeps it alive: a transient unit, or without systemd a session of its own."""
        if has_systemd():
            argv = ["systemd-run", "--quiet", "--collect", "--unit", self.unit, "--description", self.name]
            ran = run([*argv, "/bin/sh", self._file("run")])
            # Its unit may be there all the same: what a killed run was about to start, or an answer that was lost.
            if ran.status != 0 and not self._alive() and self._exit_status() is None:
                raise Refused("the job could not be started\n" + ran.tail())
            return
        handle = os.open(self._file("alive"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            subprocess.Popen(
                ["/bin/sh", self._file("run")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(handle,),
            )
        finally:
            os.close(handle)

    def _attach(self) -> None:
        """Pass its log on until it ends. Raises Detached."""
        started = spoke = known = time.monotonic()
        with open(self._file("log"), "rb") as log:
            rest = b""
            while True:
                alive = self.seems_alive()
                ended = alive is False or os.path.exists(self._file("exit"))
                new = log.read()
                if new:
                    spoke = time.monotonic()
                    *lines, rest = (rest + new).split(b"\n")
                    for line in lines:
                        self.context.say(line.decode("utf-8", "replace"))
                if ended:
                    return
                if alive is None:
                    self._require_patience(known)
                else:
                    known = time.monotonic()
                if time.monotonic() - spoke > STALL_S:
                    minutes = (time.monotonic() - started) / 60
                    self.context.say("running for %.0f min, silent for the last minute" % minutes)
                    spoke = time.monotonic()
                self._pause()

    def _tail(self) -> str:
        with open(self._file("log"), "rb") as log:
            return "\n".join(log.read().decode("utf-8", "replace").splitlines()[-SHOWN_LINES:])


def sweep(context: Context) -> None:
    """The secrets of jobs that are not alive go."""
    for name in context.store.jobs_with_credentials():
        job = Job({"name": name, "job": name}, context)
        if job.seems_alive() is False:
            job.forget_credentials()
