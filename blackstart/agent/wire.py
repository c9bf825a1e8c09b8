"""The agent's end of the protocol: length-prefixed JSON requests on stdin, one JSON event a line on stdout."""

import json
import os
import select
import threading
import time
from typing import Any, Dict, Optional

HEARTBEAT_S = 2.0


class ControllerGone(Exception):
    """stdin ended or stdout broke: nobody is listening any more."""


class Wire:
    """Reads requests from a file descriptor and writes events to another; safe to use from several threads."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._lock = threading.Lock()
        self._waiting = b""
        self.gone = False

    def read_request(self) -> Optional[Dict[str, Any]]:
        """The next request, or None once the controller has closed its end."""
        header = b""
        while not header.endswith(b"\n"):
            byte = os.read(self._source, 1)
            if not byte:
                return None
            header += byte
        left = int(header)
        parts = []
        while left:
            part = os.read(self._source, min(left, 1 << 20))
            if not part:
                return None
            parts.append(part)
            left -= len(part)
        request: Dict[str, Any] = json.loads(b"".join(parts))
        return request

    def controller_is_gone(self) -> bool:
        """During a request the controller sends nothing, so anything readable on stdin is its end."""
        if not self.gone and select.select([self._source], [], [], 0)[0]:
            self.gone = True
        return self.gone

    def note(self, event: str, **fields: Any) -> None:
        """An event that may wait for the next `emit`, at most for the next sign of life.

        Each write wakes the controller, which may have a hundred machines to listen to.
        """
        line = json.dumps(dict(fields, e=event), separators=(",", ":")).encode() + b"\n"
        with self._lock:
            self._waiting += line

    def emit(self, event: str, **fields: Any) -> None:
        """Write one event. A broken pipe is remembered, not raised: the resource in hand is finished first."""
        self.note(event, **fields)
        self.flush()

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            waiting, self._waiting = self._waiting, b""
            if self.gone:
                return
            try:
                while waiting:
                    waiting = waiting[os.write(self._sink, waiting) :]
            except OSError:
                self.gone = True

    def start_heartbeat(self) -> None:
        """Let the controller tell a long resource from a dead machine."""

        def beat() -> None:
            while not self.gone:
                time.sleep(HEARTBEAT_S)
                self.emit("alive")

        threading.Thread(target=beat, daemon=True).start()
