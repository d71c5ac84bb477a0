"""What looking at a constraint, or at a reply, may find."""


class CheckFailed(Exception):
    """What is wrong, without a full stop, and where within the source."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path


class CheckTooExpensive(Exception):
    """It is more than may be looked at."""
