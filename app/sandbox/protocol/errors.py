"""The sandbox's errors.

SandboxError                status, type and code belong to the class; param names the invalid field
├── InvalidRequest          400  the body cannot be decoded, or a field has a wrong type or value
├── InvalidConstraint       400  a constraint that does not compile, contradicts another, or takes too long to obey
├── ContextLengthExceeded   400  a prompt longer than the context
├── UnknownModel            404
├── UnknownRoute            404
├── MethodNotAllowed        405
├── RequestTooLarge         413
└── RequestedFailure        any  a failure that the model's name or the request demands
"""

from http.client import responses
from typing import ClassVar


class SandboxError(Exception):
    status: int = 400
    type: str = "invalid_request_error"
    code: ClassVar[str | None] = None

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param

    def response_headers(self) -> list[tuple[bytes, bytes]]:
        return []

    def envelope(self) -> dict[str, object]:
        """OpenAI's error object, as the body of a response or as a frame of a stream."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class InvalidRequest(SandboxError):
    code = "invalid_value"


class InvalidConstraint(SandboxError):
    code = "invalid_constraint"


class ContextLengthExceeded(SandboxError):
    code = "context_length_exceeded"


class UnknownModel(SandboxError):
    status = 404
    code = "model_not_found"


class UnknownRoute(SandboxError):
    status = 404
    code = "unknown_url"


class MethodNotAllowed(SandboxError):
    status = 405
    code = "method_not_allowed"

    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed

    def response_headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"allow", self.allowed.encode())]


class RequestTooLarge(SandboxError):
    status = 413
    code = "request_too_large"


class RequestedFailure(SandboxError):
    """A failure on demand; 429 and 503 have a Retry-After."""

    code = "sandbox_failure"

    def __init__(self, status: int, reason: str, retry_after_s: int = 1) -> None:
        phrase = responses.get(status, "failure")
        super().__init__(f"The sandbox answers {status} ({phrase}) because {reason}.")
        self.status = status
        self.type = ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        self.retry_after_s = retry_after_s

    def response_headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"retry-after", str(self.retry_after_s).encode())] if self.status in (429, 503) else []


ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
