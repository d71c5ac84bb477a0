"""What the sandbox refuses, and how it says so.

Refusal                 status, type and code are the class's own; param names the field at fault
├── Malformed           400  the body cannot be read, or a field has a wrong type or value
├── Unfit               400  a constraint that does not compile, contradicts another, or costs too much to obey
├── TooLong             400  a prompt longer than the context
├── UnknownModel        404
├── UnknownRoute        404
├── WrongMethod         405
├── TooLarge            413
└── Told                any  a failure that was asked for: by the model's name or by the request
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
        """OpenAI's error object; the same as the body of an answer and as a frame of a stream."""
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
    """Fails because it was told to; 429 and 503 say when to come back."""

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
