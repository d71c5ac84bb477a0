"""Errors of checking a constraint or a response."""


class CheckFailed(Exception):
    """A source did not pass its check. `message` says what is wrong, without a full stop, and `path` where in the source."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path


class CheckTooExpensive(Exception):
    """Checking would take more time, memory or depth than allowed."""
