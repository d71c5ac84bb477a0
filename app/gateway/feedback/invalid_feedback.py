"""InvalidFeedback: what is wrong with feedback, in a kind for programs and a sentence for people."""

from typing import Literal

from providers.canonical.errors import InvalidRequest

FeedbackErrorCode = Literal["unknown_metric", "wrong_level", "wrong_value", "invalid_id", "invalid_feedback"]


class InvalidFeedback(InvalidRequest):
    """An error in feedback. `code` tells its kind, for programs and for metrics."""

    def __init__(self, message: str, *, param: str | None, code: FeedbackErrorCode = "invalid_feedback") -> None:
        super().__init__(message, param=param)
        self.code = code
