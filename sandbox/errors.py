"""The one error that the sandbox shows to its user."""


class SandboxError(Exception):
    """Something the sandbox cannot do here.

    `message` says what was being done and what was found; `remedy` says what to do next.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
