"""Anthropic's list of models: how it is read, and that it overrules what our table says of thinking, efforts and output."""

import asyncio
import contextlib
import json
from typing import Any

import httpx2
import pytest

from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.gateway.fleet.fleet import Fleet
from app.gateway.fleet.model_lists import ModelLists
from app.settings import Settings
from app.store.configuration.snapshots import build_snapshot
from app.store.postgres.vault import Vault
from providers.canonical.chat import ChatRequest, Message, Text, Thinking
from providers.drop_policy import DropPolicy
from providers.hosted.anthropic.adapter import Anthropic
from providers.hosted.anthropic.model_list import ListedModel, overrule, read_model_list
from providers.profiles.claude.models import ClaudeProfile, find_profile

EFFORTS = ("low", "medium", "high", "xhigh", "max")
TYPES = ("adaptive", "between_tools", "disabled", "enabled")


def listed(id: str, types: tuple[str, ...], efforts: tuple[str, ...], **fields: Any) -> dict[str, Any]:
    thinking = {"supported": bool(types), "types": {name: {"supported": name in types} for name in TYPES}}
    effort = {"supported": bool(efforts), **{name: {"supported": name in efforts} for name in EFFORTS}}
    return {"type": "model", "id": id, "display_name": id, "capabilities": {"thinking": thinking, "effort": effort}, **fields}


def page(*models: Any, **fields: Any) -> bytes:
    return json.dumps({"data": models, "has_more": False, "first_id": None, "last_id": None, **fields}).encode()


@pytest.mark.parametrize(
    ("types", "efforts", "mode", "off"),
    [
        (("adaptive",), EFFORTS, "adaptive", "never"),
        (("adaptive", "disabled"), EFFORTS, "adaptive", "disabled"),
        (("adaptive", "between_tools"), EFFORTS[:3], "adaptive", "between_tools"),
        (("adaptive", "enabled", "disabled"), ("low", "medium", "high", "max"), "either", "disabled"),
        (("enabled", "disabled"), (), "budget", "disabled"),
        (("disabled",), (), "never", "disabled"),
    ],
)
def test_list_overrules_the_table(types: tuple[str, ...], efforts: tuple[str, ...], mode: str, off: str):
    (model,), after = read_model_list(page(listed("claude-new-7", types, efforts, max_tokens=200_000)))
    profile = overrule(ClaudeProfile(sampling="never", can_force_tool_call=False), model)
    assert after is None and (profile.thinking_mode, profile.thinking_off, profile.efforts) == (mode, off, efforts)
    assert (profile.max_output_tokens, profile.sampling, profile.can_force_tool_call) == (200_000, "never", False)


def test_what_the_list_does_not_state_stays():
    (model,), _ = read_model_list(page({"id": "claude-opus-5", "display_name": "Opus"}))
    assert model == ListedModel("claude-opus-5", "Opus") and overrule(find_profile(model.id), model) is find_profile(model.id)


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b"{}", b'{"data": {}}'])
def test_what_is_no_list_is_refused(raw: bytes):
    with pytest.raises(ValueError, match="it is no"):
        read_model_list(raw)


def test_entries_that_are_no_models_are_passed_over_and_pages_follow():
    models, after = read_model_list(page(1, {"id": 2}, {"id": "m", "capabilities": 3, "max_tokens": "x"}, has_more=True, last_id="m"))
    assert models == [ListedModel("m")] and after == "m"


class Host(httpx2.AsyncBaseTransport):
    """A host that serves two pages of a list, for the operator's own key."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.status = 200

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.urls.append(str(request.url))
        assert request.headers["x-api-key"] == "the-operators"
        if "after_id" in str(request.url):
            return httpx2.Response(self.status, content=page(listed("claude-other-9", ("adaptive",), ("low",))))
        first = page(listed("claude-haiku-5-5", ("adaptive", "between_tools"), ("low", "high")), has_more=True, last_id="a b")
        return httpx2.Response(self.status, content=first)


async def read_lists(host: Host, credentials: tuple[str, ...], within_s: float = 5, **settings: Any) -> Fleet:
    vault = Vault(["a key for the tests of lists, random"])
    snapshot = build_snapshot(
        1,
        {"claude": ProviderConfig("anthropic", "http://host/v1", credentials), "other": ProviderConfig("openai", "http://host/v1", ())},
        {"m": ModelConfig((Target("claude", "claude-haiku-5-5"), Target("other", "x")))},
        credentials={"own": vault.encrypt("own", "the-operators")},
    )
    fleet = Fleet(Settings(), host, vault)
    fleet.apply_snapshot(snapshot)
    lists = ModelLists(Settings(**settings), fleet)
    lists.task.start()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while len(host.urls) < 4:
                await asyncio.sleep(0.01)
    await lists.task.stop()
    return fleet


async def test_list_is_read_again_and_again_with_the_operators_credential_alone():
    host = Host()
    fleet = await read_lists(host, ("store:own",), model_list_interval_s=0.05)
    assert host.urls[:2] == ["http://host/v1/models?limit=1000", "http://host/v1/models?limit=1000&after_id=a%20b"]
    assert len(host.urls) >= 4
    provider = next(each.provider for each in fleet.endpoints if isinstance(each.provider, Anthropic))
    assert set(provider.listed_profiles) == {"claude-haiku-5-5", "claude-other-9"}
    chat = ChatRequest("openai_chat", "claude-haiku-5-5", (Message("user", (Text("Hi"),)),), thinking=Thinking(effort="medium"))
    policy = DropPolicy(lambda _: False, {}, "host")
    adapted = provider.adapt_chat(chat, "anthropic_messages", policy)
    assert adapted.thinking is not None and adapted.thinking.effort == "low" and policy.dropped == ["thinking.effort"]


@pytest.mark.parametrize(("credentials", "interval_s"), [(("header:x-own-key",), 0.05), ((), 0.05), (("store:own",), 0.0)])
async def test_nothing_is_read_without_a_credential_of_the_operators_or_leave(credentials: tuple[str, ...], interval_s: float):
    host = Host()
    await read_lists(host, credentials, within_s=0.3, model_list_interval_s=interval_s)
    assert host.urls == []


async def test_host_that_fails_changes_nothing():
    host = Host()
    host.status = 503
    fleet = await read_lists(host, ("store:own",), model_list_interval_s=0.05)
    assert len(host.urls) >= 4 and all(
        each.provider.listed_profiles == {} for each in fleet.endpoints if isinstance(each.provider, Anthropic)
    )
