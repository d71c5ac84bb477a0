"""Everything that can go wrong with a request, as one tree.

    NarthexError
    ├── AskError                  the ask cannot be served as it is; no engine was troubled
    │   ├── Malformed         400 not JSON, a wrong type, two things that exclude each other
    │   ├── NoKey             401 no key, or one we do not know
    │   ├── NotAllowed        403 a key that may not do this
    │   ├── UnknownModel      404 a name that this key may not use or nobody configured
    │   ├── UnknownResponse   404 an answer that is not kept, or not for this caller
    │   ├── UnknownRoute      404
    │   ├── WrongMethod       405
    │   ├── Conflict          409 the same request is being answered already
    │   ├── TooLarge          413 the body is over the limit
    │   ├── Unsupported       422 a field that no target of the model can honour
    │   ├── KeyReused         422 an Idempotency-Key that stands for another request
    │   ├── LimitReached      429 a limit's rule has no room for it now
    │   │   └── NeverFits     400 a limit's rule never has room for it
    │   ├── NotOffered        501 a route that no target of the model has
    │   └── Unavailable       503 we cannot take it now: draining, or nowhere to record it
    └── UpstreamError             an engine failed us
        ├── Unreachable       502 no connection, or it broke before an answer
        ├── TimedOut          504 too slow to connect, to begin, between blocks, or in all
        ├── Overloaded    429/503 it says that it has too much to do
        │   └── Exhausted 429/502 our account there has nothing left: no waiting of seconds helps
        ├── Failed            5xx it says that it failed; 501 and 503 are kept, other numbers become 502
        │   └── Unparsed      502 it could not read what its own model wrote
        ├── Garbled           502 what it answered is not what its API promises
        ├── CutShort          502 it ended midway
        ├── CredentialRefused 502 it did not accept *our* credential: not the caller's 401
        ├── NoToken           502 whoever gives out tokens for our credential cannot be reached, or takes too long
        ├── NotServed         501 it was not started for the route, or its model is not
        ├── NotObeyed         502 its answer is not of the form that it was asked for: nothing that the caller could use
        ├── Ignored           422 it answered, and not as it was asked to: another may
        └── Refused           4xx it says that the request is wrong: its own number is kept
            └── Missing       404 it does not have what the target names: another may

`elsewhere` says whether another endpoint may do better; `fault` whether it counts against the endpoint.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar


class NarthexError(Exception):
    """Status and kind are what the caller is told; `param` is the path of the field at fault, None if no single one is.

    `code`: what a program may go by, where the status does not say it all. `details`: more for a program.
    """

    status: int = 500
    kind: ClassVar[str] = "internal_server_error"
    retry_elsewhere: ClassVar[bool] = False
    counts_as_failure: ClassVar[bool] = False
    code: str | None = None
    details: Mapping[str, str | float | Sequence[str] | None] | None = None

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s


class RequestError(NarthexError):
    """The ask cannot be served as it is."""


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
    """In OpenAI's words. `id`: as it was said; `why`: where there is more to say, a sentence."""

    status = 404
    kind = "invalid_request_error"

    def __init__(self, id: str, reason: str = "") -> None:
        self.id = id[:100]
        self.reason = reason
        super().__init__(" ".join([f"Response with id '{self.id}' not found.", *([reason] if reason else [])]))


class UnknownRoute(RequestError):
    status = 404
    kind = "not_found_error"


class MethodNotAllowed(RequestError):
    """`allowed` goes into the Allow header."""

    status = 405
    kind = "invalid_request_error"

    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class BodyTooLarge(RequestError):
    status = 413
    kind = "invalid_request_error"


class Unsupported(RequestError):
    status = 422
    kind = "unsupported"


class OperationNotSupported(RequestError):
    status = 501
    kind = "unsupported"


class Conflict(RequestError):
    status = 409
    kind = "conflict"


class IdempotencyKeyReused(RequestError):
    status = 422
    kind = "invalid_request_error"


class LimitExceeded(RequestError):
    """`details` names the rule; `headers` tell what is left of the rules that matched."""

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
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.code = code
        self.details = details
        self.headers = headers


class LimitUnsatisfiable(LimitExceeded):
    """There is nothing to wait for: with a 429, SDKs would try it again."""

    status = 400
    kind = "invalid_request_error"

    def __init__(
        self, message: str, *, code: str, details: Mapping[str, str | float | None], headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        super().__init__(message, code=code, details=details, retry_after_s=0, headers=headers)
        self.retry_after_s = None


class Unavailable(RequestError):
    status = 503
    kind = "service_unavailable"


class UpstreamError(NarthexError):
    """An engine failed us. `told` is the status that it answered, None if it did not. `said_code`: its own word for the error."""

    status = 502
    kind = "backend_error"
    retry_elsewhere = True
    counts_as_failure = True
    upstream_code: str | None = None

    def __init__(
        self, message: str, *, upstream_status: int | None = None, param: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, param=param, retry_after_s=retry_after_s)
        self.upstream_status = upstream_status


class Unreachable(UpstreamError):
    kind = "backend_unreachable"


class TimedOut(UpstreamError):
    status = 504
    kind = "backend_timeout"


class Overloaded(UpstreamError):
    status = 503
    kind = "rate_limit_exceeded"
    counts_as_failure = False

    def __init__(self, message: str, *, upstream_status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message, upstream_status=upstream_status, retry_after_s=retry_after_s)
        self.status = 429 if upstream_status == 429 else 503


class QuotaExhausted(Overloaded):
    """What was paid for is used up, or a bill is open. A caller is told 429 where the host said so, else 502: the account is ours."""

    def __init__(self, message: str, *, upstream_status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message, upstream_status=upstream_status, retry_after_s=retry_after_s)
        self.status = 429 if upstream_status == 429 else 502


class UpstreamFailed(UpstreamError):
    def __init__(self, message: str, *, upstream_status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message, upstream_status=upstream_status, retry_after_s=retry_after_s)
        self.status = upstream_status if upstream_status in (501, 503) else 502


class UnparsableModelOutput(UpstreamFailed):
    """The engine is well, and another try may go better: its model wrote what is no call, though it began like one."""

    counts_as_failure = False


class InvalidUpstreamResponse(UpstreamError):
    pass


class StreamTruncated(UpstreamError):
    pass


class CredentialRefused(UpstreamError):
    """`reason`: what the host says of it."""

    counts_as_failure = False

    def __init__(self, message: str, *, upstream_status: int | None = None, reason: str = "") -> None:
        super().__init__(message, upstream_status=upstream_status)
        self.reason = reason or message


class TokenUnavailable(UpstreamError):
    counts_as_failure = False


class RouteNotServed(UpstreamError):
    status = 501
    kind = "unsupported"
    counts_as_failure = False


class ConstraintViolation(UpstreamError):
    """`said`: what it answered instead, and `why` that is not what was asked for, or is not known to be.

    `input_tokens`, `output_tokens`: what that took, which is charged for; None: not told.
    """

    counts_as_failure = False
    code = "constraint_not_obeyed"

    def __init__(self, reason: str, *, param: str, response_text: str, input_tokens: int | None, output_tokens: int | None) -> None:
        super().__init__(
            f"The engine does not promise to obey `{param}`, and this answer was not seen to: {reason} "
            "With the header `x-narthex-guided-retries: 1` (up to 3) it is asked again.",
            param=param,
        )
        self.reason = reason
        self.response_text = response_text
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens


class RequestIgnored(UpstreamError):
    status = 422
    kind = "unsupported"
    counts_as_failure = False


class UpstreamRejected(UpstreamError):
    kind = "invalid_request_error"
    retry_elsewhere = False
    counts_as_failure = False

    def __init__(self, message: str, *, upstream_status: int, param: str | None = None) -> None:
        super().__init__(message, upstream_status=upstream_status, param=param)
        self.status = upstream_status


class UpstreamNotFound(UpstreamRejected):
    kind = "not_found_error"
    retry_elsewhere = True
