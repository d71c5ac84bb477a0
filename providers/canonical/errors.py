"""Every error of a request, as one tree. The number is the caller's HTTP status.

NarthexError                          500
├── RequestError                          the request cannot be served as it is; no engine was called
│   ├── InvalidRequest                400 not JSON, a wrong type, two fields that exclude each other
│   ├── CallerCredentialRequired      401 no API key, or an unknown one
│   ├── NotAllowed                    403 this key may not do that
│   ├── UnknownModel                  404 the model does not exist, or this key may not use it
│   ├── UnknownResponse               404 the response is not stored, or belongs to another caller
│   ├── UnknownRoute                  404
│   ├── UnknownRecord                 404 no such inference or episode is recorded
│   ├── MethodNotAllowed              405
│   │   └── UpgradeRefused            426 a WebSocket was offered, which this gateway does not speak
│   ├── Conflict                      409 the same request is in progress
│   ├── PreconditionFailed            412 If-Match names another state of the resource than the current one
│   ├── RequestTimedOut               408
│   ├── BodyTooLarge                  413
│   ├── Unsupported                   422 a field that no target of the model can honour
│   ├── WorkTooLarge                  422 to work on the request takes more time or memory than one request may
│   ├── IdempotencyKeyReused          422 the Idempotency-Key belongs to another request
│   ├── PreconditionRequired          428 a change of an existing resource without If-Match
│   ├── LimitExceeded                 429 a limit has no room for the request now
│   │   └── LimitUnsatisfiable        400 a limit never has room for it
│   ├── BodyMemoryExceeded            429 the requests in progress of the key or team hold as many bytes as they may
│   ├── OperationNotSupported         501 no target of the model has this route
│   └── Unavailable                   503 the gateway is shutting down, or cannot record the exchange
└── UpstreamError                     502 an engine, or what is between it and us, failed
    ├── Unreachable                   502 no connection, or it broke before a response
    ├── TimedOut                      504 too slow to connect, to begin, between blocks, or in total
    ├── Overloaded                    503 the engine has too much to do; its own 429 is kept
    │   └── QuotaExhausted            502 our account there has no credit left: retrying soon is useless; its own 429 is kept
    ├── UpstreamFailed                502 the engine reports that it failed; its own 500 to 511 is kept
    │   └── UnparsableModelOutput     502 the engine could not parse what its model wrote
    ├── InvalidUpstreamResponse       502 the response is not what the engine's API specifies
    ├── StreamTruncated               502 the stream ended before its end
    ├── CredentialRefused             502 the engine rejected the gateway's credential: not a 401 of the caller's
    ├── TokenUnavailable              502 the token service for our credential is unreachable, or too slow
    ├── ApiMissing                    502 there is no such API at the address
    ├── RouteNotServed                501 the engine, or its model, was not started for this route
    ├── ConstraintViolation           502 the response failed validation against the requested format
    │   └── ConstraintUnchecked       502 it could not be validated, and the caller refuses such responses
    ├── RequestIgnored                422 the engine responded and ignored a part of the request; another endpoint may honour it
    └── UpstreamRejected              4xx the engine says that the request is wrong; its own number is kept
        └── UpstreamNotFound          404 it does not have what the target names; another may
"""

from collections.abc import Container, Mapping, Sequence
from typing import ClassVar, Literal, Self

from providers.canonical.chat import Usage

# Of what a host says about an error: no message or path of a field is longer, unless it repeats what it was sent. Whatever is done
# with an error later (masking, searching for phrases) is therefore short.
_MAX_MESSAGE_CHARS = 8_000
_MAX_PARAM_CHARS = 300
_MAX_ERRORS_BEFORE = 100  # errors can be made to follow each other in a circle


class NarthexError(Exception):
    """An error that a caller sees as a response: `status`, and `kind` as its type in the error envelope.

    `param` is the path of the field at fault; None means that it is no single field.
    """

    status: int = 500
    kind: ClassVar[str] = "internal_server_error"
    retry_elsewhere: ClassVar[bool] = False  # whether another endpoint may serve the request
    counts_as_failure: ClassVar[bool] = False  # whether the endpoint's circuit breaker counts it
    code: str | None = None  # tells programs more than the status does
    details: Mapping[str, str | float | Sequence[str] | None] | None = None  # further fields of the envelope

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s

    def reworded(self, message: str, *, param: str | None) -> Self:
        """The same error in other words: of the same class, with all else that it says."""
        error = type(self).__new__(type(self), message)
        error.__dict__.update(self.__dict__)
        error.message, error.param = message, param
        return error

    def without_frames(self) -> Self:
        """Itself, once it and the errors before it no longer hold the frames that they passed through.

        An error that a frame keeps, such as the reason why a target failed, keeps that frame in turn: all that the request held, bodies of
        megabytes too, would stay until a garbage collection.
        """
        error: BaseException | None = self
        for _ in range(_MAX_ERRORS_BEFORE):
            if error is None:
                break
            error.__traceback__ = None
            error = error.__context__
        return self


class RequestError(NarthexError):
    """The request cannot be served as it is; no engine was called."""


class InvalidRequest(RequestError):
    status = 400
    kind = "invalid_request_error"


class CallerCredentialRequired(RequestError):
    status = 401
    kind = "authentication_error"


class NotAllowed(RequestError):
    status = 403
    kind = "permission_error"


class UnknownModel(RequestError):
    status = 404
    kind = "not_found_error"


class UnknownResponse(RequestError):
    """The message is OpenAI's. `id` is as the caller sent it. `reason` is a sentence to add; empty means that there is nothing to add."""

    status = 404
    kind = "invalid_request_error"

    def __init__(self, id: str, reason: str = "") -> None:
        self.id = id[:100]
        self.reason = reason
        super().__init__(" ".join([f"Response with id '{self.id}' not found.", *([reason] if reason else [])]))


class UnknownRoute(RequestError):
    status = 404
    kind = "not_found_error"


class UnknownRecord(RequestError):
    status = 404
    kind = "not_found_error"


class MethodNotAllowed(RequestError):
    """The path has no such method. `allowed` is the value of the Allow header; empty means that it is not known."""

    status = 405
    kind = "invalid_request_error"

    def __init__(self, method: str, path: str, allowed: str) -> None:
        super().__init__(f"Method {method} is not allowed for {path}{f'; use {allowed}' if allowed else ''}.")
        self.allowed = allowed


class UpgradeRefused(MethodNotAllowed):
    """The Codex CLI goes on by HTTP at once after a 426; after a 403, 404 or 405 it first tries for 6 to 9 seconds."""

    status = 426
    code = "upgrade_refused"

    def __init__(self, path: str) -> None:
        super().__init__("GET", path, "POST")
        self.message = f"This gateway does not speak WebSocket: send requests to {path} by HTTP, with POST; they may be streamed."


class Conflict(RequestError):
    status = 409
    kind = "conflict"


class PreconditionFailed(RequestError):
    status = 412
    kind = "precondition_failed"


class PreconditionRequired(RequestError):
    status = 428
    kind = "precondition_required"


class RequestTimedOut(RequestError):
    """Raised while the head or the body of a request comes: too slowly, or for too long."""

    status = 408
    kind = "timeout_error"
    code = "request_timeout"


class BodyTooLarge(RequestError):
    status = 413
    kind = "invalid_request_error"


class UnsupportedMediaType(RequestError):
    """The body has a coding that is not read. `accepted` are the content codings that are, as the value of the Accept-Encoding header."""

    status = 415
    kind = "invalid_request_error"

    def __init__(self, message: str, *, accepted: str) -> None:
        super().__init__(message)
        self.accepted = accepted


class Unsupported(RequestError):
    """Raised by dialects, adapters, engine routes and DropPolicy for a field that the target cannot honour.

    By app.gateway.attempts.attempts, if no target of the model can; by other code, for what the gateway itself does not offer.
    """

    status = 422
    kind = "unsupported"


class TooManyInputs(Unsupported):
    """The target takes at most `maximum` inputs in a request. The gateway can send several."""

    def __init__(self, message: str, *, param: str, maximum: int) -> None:
        self.maximum = maximum
        super().__init__(message, param=param)


class WorkTooLarge(RequestError):
    """Raised by app.gateway.large_work. The message names the bound, its value and what would fit."""

    status = 422
    kind = "invalid_request_error"


class IdempotencyKeyReused(RequestError):
    """Raised by app.gateway.idempotency, before the body is parsed."""

    status = 422
    kind = "invalid_request_error"


class LimitExceeded(RequestError):
    """A rule admits no more now. `details` names the rule; `headers` report what is left of the rules that matched.

    `budget_period` is what a budget is for; None: the rule is none.
    """

    status = 429
    kind = "rate_limit_exceeded"

    def __init__(
        self,
        message: str,
        *,
        code: str,
        details: Mapping[str, str | float | None],
        retry_after_s: float,
        headers: Sequence[tuple[bytes, bytes]],
        budget_period: Literal["day", "week", "month"] | None = None,
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.code = code
        self.budget_period = budget_period
        self.details = details
        self.headers = headers


class LimitUnsatisfiable(LimitExceeded):
    """A limit that a request can never meet: a 400 without Retry-After, since SDKs would retry a 429 and no waiting helps."""

    status = 400
    kind = "invalid_request_error"

    def __init__(
        self, message: str, *, code: str, details: Mapping[str, str | float | None], headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        super().__init__(message, code=code, details=details, retry_after_s=0, headers=headers)
        self.retry_after_s = None


class BodyMemoryExceeded(RequestError):
    """Raised by app.gateway.memory.body_memory, while a body is being read."""

    status = 429
    kind = "rate_limit_exceeded"
    code = "body_memory_exceeded"


class OperationNotSupported(RequestError):
    status = 501
    kind = "unsupported"


class Unavailable(RequestError):
    status = 503
    kind = "service_unavailable"


class UpstreamError(NarthexError):
    """An engine, or what is between it and us, failed.

    `upstream_status` is the engine's own status; None means that it did not respond. The caller sees it if it is one of `kept_statuses`.
    """

    status = 502
    kind = "backend_error"
    retry_elsewhere = True
    counts_as_failure = True
    kept_statuses: ClassVar[Container[int]] = ()
    upstream_code: str | None = None  # the engine's own code for the error; None: it sent none

    def __init__(
        self, message: str, *, upstream_status: int | None = None, param: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message[:_MAX_MESSAGE_CHARS], param=param and param[:_MAX_PARAM_CHARS], retry_after_s=retry_after_s)
        self.upstream_status = upstream_status
        if upstream_status is not None and upstream_status in self.kept_statuses:
            self.status = upstream_status


class Unreachable(UpstreamError):
    kind = "backend_unreachable"


class TimedOut(UpstreamError):
    status = 504
    kind = "backend_timeout"


class Overloaded(UpstreamError):
    """Type and code are OpenAI's for an overloaded server: no limit of the caller's was reached, even where the host answered 429.

    Source: https://www.developersdigest.tech/errors/api/openai-api/503-server-is-overloaded (OpenAI's list of errors), read 2026-11.
    """

    status = 503
    kept_statuses = frozenset({429})
    kind = "service_unavailable_error"
    code = "server_is_overloaded"
    counts_as_failure = False


class QuotaExhausted(Overloaded):
    """Our account at the host has no credit left, or an unpaid bill. Not 503 by itself: the account is the gateway's."""

    status = 502
    kind = "backend_error"
    code = None


class UpstreamFailed(UpstreamError):
    # The registered ones. Others, such as 520 of a proxy or 529, mean nothing to clients.
    kept_statuses = range(500, 512)


class UnparsableModelOutput(UpstreamFailed):
    """The model wrote a tool call, or JSON, that cannot be parsed. The engine is healthy, and a retry may succeed."""

    counts_as_failure = False


class InvalidUpstreamResponse(UpstreamError):
    pass


class StreamTruncated(UpstreamError):
    pass


class CredentialRefused(UpstreamError):
    """The host did not accept the credential. `reason` is the host's own message, without ours around it."""

    counts_as_failure = False

    def __init__(self, message: str, *, upstream_status: int | None = None, reason: str = "") -> None:
        super().__init__(message, upstream_status=upstream_status)
        self.reason = (reason or message)[:_MAX_MESSAGE_CHARS]


class TokenUnavailable(UpstreamError):
    counts_as_failure = False


class ApiMissing(UpstreamError):
    """Something answers at the provider's address, but it is no engine: the address is wrong."""


class RouteNotServed(UpstreamError):
    status = 501
    kind = "unsupported"
    counts_as_failure = False


class ConstraintViolation(UpstreamError):
    """The response does not have the format that `param` requests, or it takes too much to check whether it does.

    `response_text` is what the model wrote, `reason` what is wrong with it, a sentence, and `usage` what it used, which is charged; None
    means that it was not reported.
    """

    counts_as_failure = False
    code = "constraint_violation"

    def __init__(self, reason: str, *, param: str, response_text: str, usage: Usage | None) -> None:
        super().__init__(self.write_message(param, reason), param=param)
        self.reason = reason
        self.response_text = response_text
        self.usage = usage

    @staticmethod
    def write_message(param: str, reason: str) -> str:
        return (
            f"The engine does not guarantee `{param}`, and this response failed validation: {reason} "
            "The header `x-narthex-guided-retries: 1` (up to 3) lets the gateway retry."
        )


class ConstraintUnchecked(ConstraintViolation):
    """The gateway could not check the response, and the caller refuses such responses."""

    code = "constraint_unchecked"

    @staticmethod
    def write_message(param: str, reason: str) -> str:
        return (
            f"The engine does not guarantee `{param}`, and the gateway cannot validate responses at the moment: {reason} "
            "Without the header `x-narthex-guided-unvalidated: refuse` the response would have been sent, marked as unvalidated."
        )


class RequestIgnored(UpstreamError):
    """Raised by the readers of embedding and tokenize responses, which show that a requested field had no effect."""

    status = 422
    kind = "unsupported"
    counts_as_failure = False


class UpstreamRejected(UpstreamError):
    kept_statuses = range(400, 600)
    kind = "invalid_request_error"
    retry_elsewhere = False
    counts_as_failure = False

    def __init__(self, message: str, *, upstream_status: int, param: str | None = None) -> None:
        super().__init__(message, upstream_status=upstream_status, param=param)


class UpstreamNotFound(UpstreamRejected):
    kind = "not_found_error"
    retry_elsewhere = True
