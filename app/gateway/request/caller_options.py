"""The options that callers set in headers, beside the episode and tags.

Most requests set none.
"""

from collections.abc import Callable, Mapping

from msgspec import Raw, Struct

from app.gateway.experiments.header_names import read_header_name
from app.gateway.request.agents import CACHE_KEY, SESSION_HEADERS, allow_unknown_fields, find_session
from providers.canonical.errors import InvalidRequest

DROP, REPAIRS, UNVALIDATED = b"x-narthex-drop", b"x-narthex-guided-retries", b"x-narthex-guided-unvalidated"
VARIANT, RESUME, COST = b"x-narthex-variant", b"x-narthex-resume", b"x-narthex-cost"
PRIORITY, EXPLAIN = b"x-narthex-priority", b"x-narthex-explain"
_HEADERS = frozenset({DROP, REPAIRS, UNVALIDATED, VARIANT, RESUME, COST, PRIORITY, EXPLAIN, *SESSION_HEADERS})


def _drop_nothing(field: str) -> bool:
    return False


class CallerOptions(Struct, frozen=True):
    """The caller's own demands on the gateway for one request."""

    may_drop: Callable[[str], bool] = _drop_nothing  # whether the caller lets a field be dropped that a target cannot honour
    overrides_operator_drops: bool = False  # whether it wants nothing dropped, whatever the operator allows
    max_repairs: int = 0  # how often a response that violates its constraint may be requested again
    refuses_unvalidated: bool = False  # whether it wants no response that could not be validated
    variant: str | None = None  # the variant or arm that it demands
    resumes: bool = False  # whether a stream that breaks off is to go on elsewhere
    wants_cost: bool = False  # whether the last usage of a stream is to have its cost
    session: str | None = None  # requests of one session prefer the same endpoint, and the same of several weighted targets
    priority: bytes | None = None  # as the caller wrote it; see read_priority()
    wants_explanation: bool = False  # whether response and record say which endpoints there were, and why one was chosen


NO_CALLER_OPTIONS = CallerOptions()


def read_caller_options(headers: Mapping[bytes, bytes], body: Mapping[str, Raw], *, is_stream: bool) -> CallerOptions:
    """Reads what the headers ask of this request, and the session that its body may name. Raises InvalidRequest.

    The header of the cost is about streams alone.
    """
    if _HEADERS.isdisjoint(headers) and CACHE_KEY not in body:
        return NO_CALLER_OPTIONS
    return CallerOptions(
        may_drop=droppable_fields(headers),
        overrides_operator_drops=overrides_operator_drops(headers),
        max_repairs=_max_repairs(headers.get(REPAIRS)),
        refuses_unvalidated=_refuses_unvalidated(headers.get(UNVALIDATED)),
        variant=named_variant(headers),
        resumes=_is_true(headers, RESUME),
        wants_cost=is_stream and _is_true(headers, COST),
        session=find_session(headers, body),
        priority=headers.get(PRIORITY),
        wants_explanation=headers.get(EXPLAIN) == b"true",
    )


def droppable_fields(headers: Mapping[bytes, bytes]) -> Callable[[str], bool]:
    """Tells which fields may be dropped: `x-narthex-drop: all`, `none`, or names of fields; and those that no gateway may refuse.

    Raises InvalidRequest.
    """
    header_value = headers.get(DROP)
    if header_value is None:
        return allow_unknown_fields(headers, _drop_nothing)
    named = {name.strip() for name in header_value.decode("latin-1").split(",")}
    if "none" in named:
        if len(named) > 1:
            raise InvalidRequest(
                "The header x-narthex-drop may be none, all, or names of fields: `none` cannot stand beside others.", param=DROP.decode()
            )
        return _drop_nothing
    return allow_unknown_fields(headers, lambda field: "all" in named or field in named)


def overrides_operator_drops(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the caller wants nothing dropped: `x-narthex-drop: none`."""
    return headers.get(DROP, b"").strip() == b"none"


def named_variant(headers: Mapping[bytes, bytes]) -> str | None:
    """Returns the variant or arm in `x-narthex-variant`, or None without that header. Raises InvalidRequest."""
    return None if VARIANT not in headers else read_header_name(headers[VARIANT])


def pinned_variant(of_header: str | None, of_body: str | None) -> str | None:
    """The variant or arm that the caller demands. None: the choice is the gateway's. Raises InvalidRequest."""
    if of_header is None:
        return of_body
    if of_body is not None and of_body != of_header:
        raise InvalidRequest(
            f"The body names the variant {of_body!r:.100}, and the header x-narthex-variant names {of_header!r:.100}: name one.",
            param="x-narthex-variant",
        )
    return of_header


def _max_repairs(header_value: bytes | None) -> int:
    if header_value is None:
        return 0
    if header_value not in (b"0", b"1", b"2", b"3"):
        raise InvalidRequest("The header x-narthex-guided-retries may be 0, 1, 2 or 3.", param=REPAIRS.decode())
    return int(header_value)


def _refuses_unvalidated(header_value: bytes | None) -> bool:
    if header_value not in (None, b"serve", b"refuse"):
        raise InvalidRequest("The header x-narthex-guided-unvalidated may be serve or refuse.", param=UNVALIDATED.decode())
    return header_value == b"refuse"


def _is_true(headers: Mapping[bytes, bytes], name: bytes) -> bool:
    header_value = headers.get(name)
    if header_value not in (None, b"true", b"false"):
        raise InvalidRequest(f"The header {name.decode()} may be true or false.", param=name.decode())
    return header_value == b"true"
