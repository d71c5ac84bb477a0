"""Errors of checking a constraint or a response."""


class CheckFailed(Exception):
    """`message`: what is wrong, without a full stop. `path`: where in the source."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path


class CheckTooExpensive(Exception):
    """Checking would take more time, memory or depth than allowed."""
