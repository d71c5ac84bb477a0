"""Trying targets in order until one serves. Nothing is tried again once a byte has gone to the caller."""

import asyncio
import logging
import time

import httpx

from app.domain import Attempt, Plan, Target
from app.gateway.asked import Asked, Prepared
from app.gateway.asking import Asking, Streaming
from app.gateway.bill import needed_of
from app.gateway.checks import Checks
from app.gateway.fleet import Endpoint, Fleet
from app.gateway.identity import Identity
from app.gateway.limits.limits import Limits
from app.gateway.underway import Underway
from app.gateway.upstream import Upstream, stream_of
from app.settings import Settings
from providers.credentials import NoCredential
from providers.dialect import Ask, Edited, Stamp
from providers.errors import (
    CredentialRefused,
    Exhausted,
    LimitReached,
    Missing,
    NoKey,
    NotObeyed,
    NotOffered,
    NoToken,
    Overloaded,
    Unavailable,
    Unreachable,
    Unsupported,
    UpstreamError,
)
from providers.routes.route import Route

log = logging.getLogger(__name__)

_MOST_ATTEMPTS = 8
# With which a host says that it has too much to do itself, whoever asks: another credential has no more room there.
_BUSY_FOR_ALL = (503, 529)


class Attempts:
    """Serves plans: `fleet` tells which endpoints a target has, `transport` speaks to them."""

    def __init__(self, settings: Settings, fleet: Fleet, limits: Limits, checks: Checks, transport: httpx.AsyncBaseTransport) -> None:
        self._settings = settings
        self._aborting: set[asyncio.Task[None]] = set()
        self._fleet = fleet
        self._limits = limits
        self._transport = transport
        self._asking = Asking(settings, checks, transport)

    async def serve(self, asked: Asked, plan: Plan, stamp: Stamp, underway: Underway) -> Edited | Streaming:
        """The first answer that a target gives. Raises the last target's UpstreamError; Unsupported if none can honour the ask, and

        NotOffered if none has the API for it.
        """
        failed: UpstreamError | None = None
        unsupported: Unsupported | None = None
        not_offered: NotOffered | None = None
        limited: LimitReached | Unavailable | None = None
        no_key: NoKey | None = None
        reserved = {plan.name}
        repairs = 0
        for target, name in self._fleet.in_order(plan):
            if name not in reserved:
                try:
                    await self._reserve(asked.ask, plan, name, underway)
                except (LimitReached, Unavailable) as refusal:
                    limited = limited or refusal
                    continue
                reserved.add(name)
            again = self._fleet.choose(target)
            for endpoint in again:
                if len(underway.attempts) >= _MOST_ATTEMPTS:
                    break
                try:
                    prepared = await prepare(asked, endpoint, target)
                except (Missing, Unreachable) as reason:  # a LoRA adapter that is known not to be there, or not known to be
                    failed = reason
                    continue
                except NotOffered as reason:
                    not_offered = not_offered or reason
                    break
                except Unsupported as reason:
                    unsupported = unsupported or reason
                    break
                try:
                    answer = await self._try_as_each(endpoint, target, prepared, asked, stamp, underway)
                except NotObeyed as error:
                    failed = error
                    underway.wasted(error, asked.ask.input_tokens)
                    if repairs == asked.repairs:
                        break  # its other endpoints serve the same model: to ask them is a second try, which the caller did not allow
                    repairs += 1
                    asked.repair(error)
                    again.append(endpoint)
                    continue
                except NoKey as reason:
                    no_key = no_key or reason
                    break
                except UpstreamError as error:
                    self._fleet.blame(endpoint, error)
                    if not error.elsewhere:
                        raise
                    failed = error
                    continue
                self._fleet.praise(endpoint)
                underway.dropped = prepared.dropped
                underway.guided = None if prepared.guiding is None else prepared.guiding.how
                return answer
        if no_key is not None:  # what only the caller can mend
            raise no_key
        if failed is not None:
            raise failed
        if unsupported is not None:
            raise unsupported
        if limited is not None:
            raise limited
        if not_offered is not None:
            raise not_offered
        raise Unreachable(f"No target of {asked.ask.model!r} has an address to be reached at.")

    async def _reserve(self, ask: Ask, plan: Plan, name: str, underway: Underway) -> None:
        """What a fallback has rules of its own for. Raises LimitReached or Unavailable: another may have room."""
        assert underway.caller is not None
        need = needed_of(ask, plan, name, self._settings.limits_output_tokens, underway.received_us / 1e6)
        underway.ticket = await self._limits.also(underway.ticket, underway.id, underway.caller, name, underway.tags, need)

    def _stop(self, endpoint: Endpoint, identity: Identity, id: str) -> None:
        """Without waiting for it: whoever lets go has no time."""
        told = endpoint.provider.abort(endpoint.base_url, id)
        if told is None:
            return
        try:
            request = endpoint.told(*told, identity=identity)
        except NoCredential:  # it is gone from where it was
            return
        task = asyncio.create_task(self._tell(request))
        self._aborting.add(task)
        task.add_done_callback(self._aborting.discard)

    async def _tell(self, request: httpx.Request) -> None:
        try:
            response = await self._transport.handle_async_request(request)
            await stream_of(response).aclose()
        except httpx.TransportError as fault:
            log.info("an engine could not be told to stop a request", extra={"url": str(request.url), "fault": repr(fault)})

    def told(self, fault: httpx.TransportError, underway: Underway) -> UpstreamError:
        """The error for a connection that failed in the middle of the answer that is under way."""
        assert isinstance(underway.held, Upstream)
        return underway.held.told(fault)

    def hidden(self, text: str, underway: Underway) -> str:
        """What is to be logged of a request, without the secret that it went with."""
        return underway.held.identity.hiding.hide(text) if isinstance(underway.held, Upstream) else text

    def hide(self, error: UpstreamError, underway: Underway) -> None:
        """See Identity.hide: of an answer that is under way. And what else there is to say of it."""
        if isinstance(underway.held, Upstream):
            underway.held.identity.hide(error)
            underway.held.detail(error)

    async def _try_as_each(
        self, endpoint: Endpoint, target: Target, prepared: Prepared, asked: Asked, stamp: Stamp, underway: Underway
    ) -> Edited | Streaming:
        """With one credential after the other, where the first are refused or have no room.

        Raises NoKey where callers have to bring one, and have not, or one that is refused.
        """
        try:
            identities = endpoint.identities.able(asked.headers, target.model)
        except NoCredential as fault:
            raise NoKey(str(fault)) from None
        if not identities:
            wanted = " or ".join(endpoint.identities.wanted)
            raise NoKey(f"{endpoint.provider.configured_as} is asked with a credential of your own: send it in the header {wanted}.")
        failed: UpstreamError | None = None
        for identity in identities:
            if failed is not None and len(underway.attempts) >= _MOST_ATTEMPTS:
                break
            turn, asked_at = identity.turn, time.monotonic()
            try:
                try:
                    answer = await self._try(endpoint, identity, target, prepared, asked, stamp, underway)
                except CredentialRefused:
                    # It may have been replaced where it is kept, or have been by another request: a rotation must cost none.
                    if identity.turn == turn and not identity.renew():
                        raise
                    answer = await self._try(endpoint, identity, target, prepared, asked, stamp, underway)
            except CredentialRefused as error:
                if identity.is_callers:
                    refused = NoKey(f"{endpoint.provider.configured_as} refused the credential that you sent: {error.reason}")
                    refused.details = error.details
                    raise refused from None
                identity.cooldown.refuse()
                failed = failed or error
            except NoToken as error:
                identity.cooldown.away()
                failed = failed or error
            except Overloaded as error:
                failed = _sooner(failed, error)
                if error.told in _BUSY_FOR_ALL:
                    break
                if isinstance(error, Exhausted):
                    identity.cooldown.spent(error.retry_after_s)
                else:
                    identity.cooldown.busy(target.model, error.retry_after_s)
            else:
                identity.cooldown.praise(target.model, asked_at)
                return answer
        assert failed is not None
        raise failed

    async def _try(
        self,
        endpoint: Endpoint,
        identity: Identity,
        target: Target,
        prepared: Prepared,
        asked: Asked,
        stamp: Stamp,
        underway: Underway,
    ) -> Edited | Streaming:
        started_us = underway.now_us()
        underway.usage, underway.written_tokens = None, 0
        upstream = Upstream(endpoint, identity, target.model, prepared.id, self._stop)
        underway.held = upstream
        told: str | None = None
        error: str | None = None
        code: str | None = None
        try:
            return await self._asking.ask(upstream, prepared, asked, stamp, underway)
        except UpstreamError as fault:
            identity.hide(fault)
            error, told, code = type(fault).__name__, fault.message, fault.said_code
            upstream.detail(fault)
            await underway.let_go()
            raise
        except asyncio.CancelledError:
            error = "HungUp" if underway.hung_up else "Cut"
            raise
        finally:
            attempt = Attempt(
                provider=target.provider,
                model=target.model,
                endpoint=endpoint.base_url,
                started_us=started_us,
                duration_us=underway.now_us() - started_us,
                status=upstream.response.status_code if upstream.response is not None else None,
                error=error,
                message=told,
                code=code,
                request_id=upstream.request_id if error else None,
            )
            underway.attempts.append(attempt)
            if error is None or (error in ("HungUp", "Cut") and upstream.asked):
                underway.served = attempt


async def prepare(asked: Asked, endpoint: Endpoint, target: Target) -> Prepared:
    """In the best dialect of the endpoint that can say the ask. Raises Unsupported for what the best of all cannot say, or NotOffered."""
    provider = endpoint.provider
    if isinstance(asked.dialect, Route):
        return asked.routed(asked.dialect, provider, target)
    spoken = endpoint.spoken_for(target.model)
    foreign = provider.foreign.get(asked.dialect.name) if provider.foreign else None
    if foreign is not None and asked.dialect.name not in spoken:
        return asked.translated(foreign, provider, target)
    unsupported: Unsupported | None = None
    for dialect in asked.dialects(provider, spoken if target.dialect is None else (target.dialect,)):
        try:
            edited = await asked.unhurried(asked.edited, provider, target) if dialect is asked.dialect else None
            return edited or await asked.crossed(dialect, provider, target)
        except Unsupported as reason:
            unsupported = unsupported or reason
    assert unsupported is not None
    raise unsupported


def _sooner(failed: UpstreamError | None, error: Overloaded) -> UpstreamError:
    """What is told of several credentials: that there is no room now rather than that one was refused; of two, the shorter wait."""
    if not isinstance(failed, Overloaded):
        return error
    waits = (failed.retry_after_s, error.retry_after_s)
    return failed if waits[1] is None or (waits[0] is not None and waits[0] <= waits[1]) else error
