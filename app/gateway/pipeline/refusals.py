"""Refusals: requests that the gateway refuses itself, counted by who was refused and why, and a bounded sample of them.

A refused request adds one to a number in memory; about once a second the numbers go to the spool, and from there into the rollups. What
a gateway process refused since then is lost if it is killed. Groups are made of configured names and closed sets, so callers cannot make
them many; samples have quotas, so that a storm of one team cannot push out those of another.
"""

import asyncio
import logging
from collections import Counter

from app.domain.callers import Caller
from app.domain.routing import MODEL_PREFIXES
from app.domain.snapshot import Snapshot
from app.gateway.state.context import RequestContext
from app.gateway.state.stages import admitted_of
from app.process.background_tasks import BackgroundTask
from app.recording.spool.refusal_records import RefusalCount, Refusals, RefusalSample, encode_refusals
from app.recording.spool.spool import Spool
from app.store.usage.rollups import UNKNOWN
from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import (
    BodyMemoryExceeded,
    BodyTooLarge,
    CallerCredentialRequired,
    LimitExceeded,
    MethodNotAllowed,
    NarthexError,
    NotAllowed,
    Unavailable,
    UnknownModel,
    UnknownRoute,
)

log = logging.getLogger(__name__)

_WRITE_EVERY_S = 1.0
_MINUTE_US = 60_000_000

# Different groups that are held; the next one is written at once, and lost where the disk is full.
MAX_COUNTS = 2_000

# Samples of one gateway process in a minute: of all, of a team (unknown keys are one), and of those with the same key and reason.
MAX_SAMPLES = 600
MAX_SAMPLES_OF_TEAM = 30
MAX_SAMPLES_OF_REASON = 3

MAX_MODEL_CHARS = 200
MAX_MESSAGE_CHARS = 300
_MAX_PARAM_CHARS = 200

# Their messages are about keys, models, paths, limits and the gateway. Those of other errors may quote what was written.
_MESSAGES_WITHOUT_CONTENT = (
    *(BodyMemoryExceeded, BodyTooLarge, CallerCredentialRequired, LimitExceeded, MethodNotAllowed, NotAllowed),
    *(Unavailable, UnknownModel, UnknownRoute),
)

_Group = tuple[int, str | None, str | None, str, str, int, str, str]  # the fields of RefusalCount before `requests`


class RefusalRecorder:
    """Counts and samples the refusals of one gateway process. start(), then add(), then stop()."""

    def __init__(self, spool: Spool) -> None:
        self.task = BackgroundTask("refusals", self._keep_writing)
        self._spool = spool
        self._counts: dict[_Group, int] = {}
        self._samples: list[RefusalSample] = []
        self._sampled_minute = 0
        self._sampled: Counter[tuple[object, ...]] = Counter()  # in that minute, by quota
        self._lost = 0
        self._has_failed = False  # to write, the last time

    def start(self) -> None:
        self.task.start()

    async def stop(self) -> None:
        await self.task.stop()
        if not self.write():
            self._log_lost(self._lost + sum(self._counts.values()))

    def add(self, context: RequestContext, error: NarthexError, snapshot: Snapshot, unknown_key: str | None) -> None:
        """Count a request that is being answered with an error. `unknown_key` is the public part of its key, if that is not known."""
        caller, minute = context.key_holder, context.received_us // _MINUTE_US
        requested = _requested_model(context)
        model = requested if not requested or requested in snapshot.models else UNKNOWN
        rule = str((error.details or {}).get("rule") or "")
        team_id, key_id = (None, None) if caller is None else (caller.team_id, caller.key_id)
        group = (minute, team_id, key_id, context.route, model, error.status, type(error).__name__, rule)
        if group not in self._counts and len(self._counts) >= MAX_COUNTS and (self._has_failed or not self.write()):
            self._lost += 1
            return
        self._counts[group] = self._counts.get(group, 0) + 1
        if self._takes_sample(group, unknown_key):
            self._samples.append(_sample(context, error, caller, requested, rule, unknown_key))

    def write(self) -> bool:
        """Write what was counted to the spool. Returns False if it has no space: then everything is kept for the next time."""
        if not self._counts:
            return True
        counts = [RefusalCount(*group, count) for group, count in self._counts.items()]
        self._has_failed = not self._spool.append_refusals(encode_refusals(Refusals(counts, self._samples)))
        if self._has_failed:
            return False
        self._counts, self._samples = {}, []
        if self._lost:
            self._log_lost(self._lost)
            self._lost = 0
        return True

    def _log_lost(self, requests: int) -> None:
        log.error("refusals were not counted, as the spool had no space for them", extra={"requests": requests})

    async def _keep_writing(self) -> None:
        while True:
            await asyncio.sleep(_WRITE_EVERY_S)
            self.write()

    def _takes_sample(self, group: _Group, unknown_key: str | None) -> bool:
        minute, team_id, key_id, _, _, status, error, rule = group
        if minute > self._sampled_minute:
            self._sampled_minute = minute
            self._sampled.clear()
        of_reason, of_team = (team_id, key_id or unknown_key, status, error, rule), (team_id,)
        sampled = self._sampled
        if (
            len(self._samples) >= MAX_SAMPLES
            or sampled[()] >= MAX_SAMPLES
            or sampled[of_team] >= MAX_SAMPLES_OF_TEAM
            or sampled[of_reason] >= MAX_SAMPLES_OF_REASON
        ):
            return False
        for quota in ((), of_team, of_reason):
            sampled[quota] += 1
        return True


def _requested_model(context: RequestContext) -> str:
    """Returns the requested model without its prefix, or "" if the request was not read that far."""
    admitted = admitted_of(context.stage)
    if admitted is None:
        return ""
    model = admitted.request.model
    for prefix in MODEL_PREFIXES:
        model = model.removeprefix(prefix)
    return model


def _sample(
    context: RequestContext, error: NarthexError, caller: Caller | None, model: str, rule: str, unknown_key: str | None
) -> RefusalSample:
    return RefusalSample(
        id=context.id,
        received_us=context.received_us,
        team_id=None if caller is None else caller.team_id,
        key_id=None if caller is None else caller.key_id,
        unknown_key=unknown_key,
        route=context.route,
        model=_masked(model, MAX_MODEL_CHARS),
        status=error.status,
        error=type(error).__name__,
        code=error.code,
        param=None if error.param is None or (caller is not None and caller.content == "none") else _masked(error.param, _MAX_PARAM_CHARS),
        rule=rule,
        message=_masked(error.message, MAX_MESSAGE_CHARS) if isinstance(error, _MESSAGES_WITHOUT_CONTENT) else None,
        request_id=context.own_request_id,
        trace_id=None if context.trace is None else context.trace.trace_id,
    )


def _masked(text: str, max_chars: int) -> str:
    """Cut, without what looks like a credential, and as Postgres can store it."""
    return mask_credentials(text)[:max_chars].encode("utf-8", "replace").decode().replace("\0", "")
