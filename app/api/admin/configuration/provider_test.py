"""Checking a provider with one cheap request: POST /admin/v1/providers/{name}/test."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, convert, to_builtins
from msgspec.structs import replace

from app.api.admin.configuration.provider_settings import ProviderSettings
from app.api.rest.credential_places import require_may_try
from app.api.rest.operation import Answer, Call, NoQuery, Operation
from app.api.rest.refused_fields import refused_field
from app.domain.errors import BadConfiguration
from app.domain.routing import ProviderConfig
from app.gateway.pipeline.gateway import Gateway
from app.gateway.provider_check import check
from app.gateway.provider_check.result import CheckResult
from app.store.configuration.validation.validate import check_provider
from providers.canonical.errors import InvalidRequest, Unavailable, UnknownRecord

_MAX_A_MINUTE = 10  # in a gateway process: each check may cost a fraction of a cent
_MINUTE_S = 60.0
_TIMEOUT_S = 100.0


class ProviderTest(Struct, frozen=True, forbid_unknown_fields=True):
    """A check of a provider."""

    model: (
        Annotated[str, Meta(max_length=512, description="The provider's name of a model to send a short request to; null: the cheapest.")]
        | None
    ) = None
    settings: (
        Annotated[ProviderSettings, Meta(description="Settings to check it with, which are not saved; null: those in force.")] | None
    ) = None


class ProviderCheck(Struct, frozen=True):
    """The result of a check: whether a provider works, at each of its addresses with each of its credentials."""

    provider: Annotated[str, Meta(description="The name of the provider.")]
    adapter: Annotated[str, Meta(description="The kind of engine or host.")]
    works: Annotated[bool, Meta(description="All of `results` work.")]
    results: Annotated[Sequence[CheckResult], Meta(description="One for each address and credential.")]


class _Turns:
    """The checks of the last minute, of which there are at most so many."""

    def __init__(self) -> None:
        self._begun_s: deque[float] = deque()

    def take(self) -> None:
        """Raises Unavailable if there were too many."""
        now_s = time.monotonic()
        while self._begun_s and self._begun_s[0] <= now_s - _MINUTE_S:
            self._begun_s.popleft()
        if len(self._begun_s) >= _MAX_A_MINUTE:
            wait_s = self._begun_s[0] + _MINUTE_S - now_s
            raise Unavailable(
                f"Providers were checked {_MAX_A_MINUTE} times within a minute: wait for a moment.", retry_after_s=int(wait_s) + 1
            )
        self._begun_s.append(now_s)


def _unsaved(name: str, settings: ProviderSettings) -> ProviderConfig:
    """Returns settings as the configuration has them. Raises InvalidRequest for what could not be saved."""
    config = convert(to_builtins(settings), ProviderConfig)
    try:
        check_provider(name, config)
    except BadConfiguration as fault:
        field = refused_field(str(fault), "providers", name)
        raise InvalidRequest(str(fault), param=field and f"settings.{field}") from None
    return config


def operations(gateway: Gateway) -> list[Operation[Any, Any]]:
    turns = _Turns()

    async def test_provider(call: Call[NoQuery, ProviderTest]) -> Answer:
        name, snapshot = call.path["name"], gateway.snapshot_cache.snapshot
        saved = snapshot.providers.get(name)
        config = saved if call.body.settings is None else _unsaved(name, call.body.settings)
        if config is None:
            raise UnknownRecord(f"There is no provider {name!r:.200}. GET /admin/v1/providers lists them.")
        if config is not saved:
            require_may_try(call, name, saved, config)
            snapshot = replace(snapshot, providers={**snapshot.providers, name: config})
        turns.take()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                results = await check.check_provider(snapshot, name, gateway.settings, gateway.fleet.vault, model=call.body.model)
        except TimeoutError:
            raise Unavailable(f"The check of {name!r:.200} took longer than {_TIMEOUT_S:g} seconds.", retry_after_s=5) from None
        return Answer(ProviderCheck(name, config.adapter, all(each.outcome == "works" for each in results), results))

    return [
        Operation(
            method="POST",
            path="/providers/{name}/test",
            id="test_provider",
            tag="Providers",
            summary="Check a provider with one cheap request",
            description="The request is for its list of models if that list requires a credential, else for a short response of a model"
            " that a target names. It is sent as the gateway sends it, to each address and with each credential. `settings` are checked"
            " without being saved, and may be of a provider that does not exist yet.",
            permission="config:write",
            access="memory",
            body=ProviderTest,
            body_is_optional=True,
            response=ProviderCheck,
            errors={404: "There is no such provider."},
            example={"model": None},
            handler=test_provider,
        )
    ]
