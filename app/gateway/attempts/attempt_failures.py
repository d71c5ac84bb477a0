"""Why targets did not serve, and which of several failures the caller gets."""

import enum

from app.domain.routing import FallbackReason
from providers.canonical.errors import ConstraintViolation, NarthexError, Unreachable, UpstreamError
from providers.canonical.refusal_reasons import RefusalReason


class Rank(enum.IntEnum):
    """How much a failure tells the caller: of several failures, the highest is raised."""

    OPERATION_NOT_SUPPORTED = 1
    LIMITED = 2
    UNSUPPORTED = 3
    UPSTREAM = 4
    CALLER_CREDENTIAL = 5  # the caller alone can correct it


class Failures:
    """The failures of targets, and the error that is raised in the end.

    That is the one of the highest rank; of several, it is the first, or upstream's last. `reasons` are those
    for which a fallback may be used. `refusal` is why the model refused the request, which its other targets
    would do as well.
    """

    __slots__ = ("_error", "_rank", "reasons", "refusal")

    def __init__(self) -> None:
        self._rank = 0
        self._error: NarthexError | None = None
        self.reasons: set[FallbackReason] = set()
        self.refusal: RefusalReason | None = None

    def add(self, rank: Rank, error: NarthexError) -> None:
        if rank > self._rank or rank == self._rank == Rank.UPSTREAM:
            self._rank, self._error = rank, error
        if isinstance(error, ConstraintViolation):
            self.reasons.add("constraint")
        else:
            self.reasons.add("unsupported" if rank in (Rank.UNSUPPORTED, Rank.OPERATION_NOT_SUPPORTED) else "failure")
        error.without_frames()

    def refuse(self, reason: RefusalReason, error: UpstreamError) -> None:
        """The model refused the request, and a fallback for that reason is configured."""
        self.add(Rank.UPSTREAM, error)
        self.reasons.add(reason)
        self.refusal = reason

    def most_useful(self, model: str) -> NarthexError:
        return self._error or Unreachable(f"No target of {model!r} has an endpoint.")
