"""Fields of the caller that a target does not get: they are dropped with leave, done by the gateway itself, or refused."""

import functools
from collections.abc import Callable, Iterable, Sequence

from app.gateway.emulation.described_places import DescribedPlaces
from app.gateway.emulation.emulation import Emulation, make_emulation
from app.gateway.request_translation.emulable_fields import emulable_fields
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.source_request import CallerTerms, SourceRequest
from providers.dialect import CallerChatDialect, InboundRequest
from providers.drop_policy import CALLER_WISHES, DropPolicy

# Naming the place of a dropped field reads the body anew each time: at most so often, and so many bytes together.
_MAX_PATH_LOOKUPS = 8
_PATH_LOOKUP_BYTES = 4_000_000


def may_drop(source: SourceRequest, recipient: Recipient, field: str) -> bool:
    """Whether the caller or the operator allows this field, in the caller's name for it, to be dropped at this target."""
    allows = recipient.terms.may_drop
    return source.terms.may_drop(field) if allows is None else allows(field)


def extended_drops(terms: CallerTerms, models: Iterable[str], provider: str) -> Callable[[str], bool] | None:
    """Tells what may be dropped at a target, as its provider or these models allow it, too: see OperatorDrops. None: nothing besides."""
    return None if terms.operator_drops is None else terms.operator_drops.extend(terms.may_drop, models, provider)


def may_leave_out(source: SourceRequest, recipient: Recipient, field: str) -> bool:
    """Whether a target may be sent the request without this field: it may be dropped, or the gateway does what it asks for."""
    return field in find_emulable(source) or field in CALLER_WISHES or may_drop(source, recipient, field)


def may_leave_out_written(source: SourceRequest, recipient: Recipient, caller_name: Callable[[str], str], field: str) -> bool:
    """The same of a field of a body that was written for the target. `caller_name` gives the caller's name for it."""
    return may_leave_out(source, recipient, field) or may_leave_out(source, recipient, caller_name(field))


def find_emulable(source: SourceRequest) -> frozenset[str]:
    """The fields that the gateway can honour itself, found once for all targets."""
    if source.emulable is None:
        source.emulable = emulable_fields(source.terms.dialect.name, source.request.body, source.constraint)
    return source.emulable


def take_emulated(source: SourceRequest, dropped: list[str]) -> tuple[list[str], Emulation | None]:
    """Divides `dropped` into what is reported as dropped, and what the gateway does itself; None: nothing."""
    fields = find_emulable(source).intersection(dropped)
    if not fields:
        return dropped, None
    emulation = make_emulation(source.read_chat_now(), fields)
    if source.constraint is not None and source.constraint.caller_paths:
        emulation.fields = tuple(map(source.constraint.caller_path, emulation.fields))
    return [field for field in dropped if field not in fields], emulation


def drop_policy_for(source: SourceRequest, recipient: Recipient, caller_dialect: CallerChatDialect) -> DropPolicy:
    """The policy for fields of the canonical chat, which reports them by the caller's names and places."""
    return DropPolicy(
        functools.partial(may_leave_out, source, recipient),
        source.field_names,
        recipient.provider.target_name,
        functools.partial(_caller_path, caller_dialect, source.request, source.places),
        max_paths=min(_MAX_PATH_LOOKUPS, 1 + _PATH_LOOKUP_BYTES // (len(source.raw) + 1)),
    )


def _caller_path(caller_dialect: CallerChatDialect, request: InboundRequest, places: Sequence[DescribedPlaces], path: str) -> str:
    """The path in the body that the caller sent."""
    for former in places:
        path = former.original_path(path)
    body_path = caller_dialect.caller_path(request.body, path)
    return body_path if request.repair is None else request.repair.original_path(body_path)
