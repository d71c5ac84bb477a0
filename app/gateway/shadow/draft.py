"""ShadowDraft: a request that is to be answered again, with everything that it needs."""

from collections.abc import Mapping

from msgspec import Struct

from app.domain.callers import MAX_PRIORITY, NO_KEY, Caller
from app.domain.routing import ShadowConfig
from app.gateway.shadow.choice import DropReason
from app.gateway.shadow.response_copy import ResponseCopy
from app.gateway.state.stages import Planned
from providers.dialect import CallerDialect

# What shapes the response, or says what may become of it. Credentials of the caller's own stay with the caller, as it would pay.
_KEPT_HEADERS = frozenset({b"anthropic-beta", b"x-narthex-drop", b"x-narthex-guided-retries", b"x-narthex-guided-unvalidated"})


class ShadowDropped(Exception):
    """A request is not answered again, for this reason."""

    def __init__(self, reason: DropReason) -> None:
        super().__init__(reason)
        self.reason: DropReason = reason


class ShadowDraft(Struct):
    """A request that is to be answered again, with everything that it needs."""

    id: str  # of the inference that is repeated
    name: str
    config: ShadowConfig
    dialect: CallerDialect
    planned: Planned  # of that inference
    raw: bytes  # its body as it is recorded
    upstream_raw: bytes  # its body as it is translated
    headers: Mapping[bytes, bytes]
    response: ResponseCopy  # what the caller got
    size_bytes: int  # what is held for it


def kept_headers(headers: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
    return {name: value for name, value in headers.items() if name in _KEPT_HEADERS}


def paying_caller(draft: ShadowDraft) -> Caller:
    """Against whose limits the shadow is counted, and in whose name it is recorded: the team that owns it, by no key.

    What is kept of it, and what may be left out of it, is as for the caller. Wherever requests wait, it waits behind all of them.
    """
    sender, config = draft.planned.admitted.caller, draft.config
    return Caller(
        key_id=NO_KEY,
        team_id=draft.planned.plan.snapshot.shadow_teams[config.team],
        team=config.team,
        content=sender.content,
        drop=sender.drop,
        priority=-MAX_PRIORITY,
        mask=sender.mask,
        shadow=draft.name,
    )
