"""Prefix caches of engines are divided between teams, wherever an engine knows how."""

import json
from typing import Any, cast

import pytest

from app.domain.routing import Target
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.request_translation.edit_request import edit_request
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.team_salts import TeamSalts
from app.gateway.request_translation.translate_route import translate_route
from providers.adapters.options import InvalidOption
from providers.catalogue import DIALECTS, build_provider
from providers.engine_routes.route import Route
from tests.support.request_translation import make_source

BASE_URL = "http://127.0.0.1:1"
SALTS = TeamSalts(("a key of this installation, random", "an older one"))
MESSAGES = {"messages": [{"role": "user", "content": "Hi"}]}
BODIES: dict[str, dict[str, Any]] = {
    "openai_chat": MESSAGES,
    "openai_completions": {"prompt": "Hi"},
    "openai_responses": {"input": "Hi"},
    "vllm_generate": {"token_ids": [1], "sampling_params": {}},
    "anthropic_messages": {**MESSAGES, "max_tokens": 5},
    "openai_embeddings": {"input": "Hi"},
}


def sent_salt(adapter: str, dialect: str = "openai_chat", *, team: str = "one", salt: str | None = None, **options: Any) -> str | None:
    body = json.dumps({"model": "m", **BODIES[dialect], **({} if salt is None else {"cache_salt": salt})}).encode()
    caller_dialect = DIALECTS[dialect]
    source = make_source(
        caller_dialect.parse_request(body),
        body,
        caller_dialect,
        cast(MediaFetcher, None),
        lambda field: False,
        team_id=team,
        team_salts=SALTS,
    )
    translated = edit_request(source, Recipient(build_provider(adapter, adapter, options, BASE_URL), Target(adapter, "m")))
    assert translated is not None
    return json.loads(translated.raw).get("cache_salt")


@pytest.mark.parametrize(
    ("adapter", "dialects"),
    [
        ("vllm", {"openai_chat", "openai_completions", "openai_responses", "vllm_generate"}),
        ("sglang", {"openai_chat", "openai_completions"}),
        ("openai", set[str]()),
        ("llamacpp", set[str]()),
        ("sandbox", set[str]()),
    ],
)
def test_engines_that_know_salts_get_one_for_each_team(adapter: str, dialects: set[str]):
    spoken = BODIES.keys() & set(build_provider(adapter, adapter, {}, BASE_URL).dialects)
    assert {each for each in spoken if sent_salt(adapter, each) is not None} == dialects
    for dialect in dialects:
        first, again, other = (sent_salt(adapter, dialect, team=team) for team in ("one", "one", "two"))
        assert first == again != other


def test_salt_is_one_that_every_engine_takes_and_needs_the_installations_key():
    salts = {SALTS.salt(team) for team in ("one", "@/\\\0", "x" * 500, "", "\ud800")}
    assert len(salts) == 5 and all(len(each) == 32 and each.isalnum() and each.isascii() for each in salts)
    assert TeamSalts(("a key of this installation, random",)).salt("one") == SALTS.salt("one")
    assert TeamSalts(("another key",)).salt("one") != SALTS.salt("one") != TeamSalts(()).salt("one")


@pytest.mark.parametrize("adapter", ["vllm", "sglang"])
def test_accepted_salt_of_a_caller_divides_its_teams_cache_and_joins_no_other(adapter: str):
    def salt(team: str, own: str | None) -> str | None:
        return sent_salt(adapter, team=team, salt=own, accepts=["cache_salt"])

    values = [salt("one", None), salt("one", "a"), salt("one", "b"), salt("two", "a"), salt("two", SALTS.salt("one"))]
    assert len(set(values)) == 5 and salt("one", "a") == values[1]


def test_salts_are_not_sent_to_versions_that_may_refuse_them_and_where_the_operator_shares_caches():
    assert sent_salt("vllm", version="0.10.2") is None
    assert sent_salt("vllm", version="0.11.0") == sent_salt("vllm") == SALTS.salt("one")
    for adapter in ("vllm", "sglang"):
        assert sent_salt(adapter, team_caches=False) is None
        assert sent_salt(adapter, team_caches=False, accepts=["cache_salt"], salt="own") == "own"
        with pytest.raises(InvalidOption, match="team_caches"):
            build_provider(adapter, adapter, {"team_caches": "no"}, BASE_URL)


@pytest.mark.parametrize("prompt", [{"text": "Hi"}, {"input_ids": [1, 2]}])
def test_native_generation_of_sglang_is_salted(prompt: dict[str, Any]):
    def sent(**options: Any) -> Any:
        body = json.dumps({"model": "m", **prompt}).encode()
        route = DIALECTS["generate"]
        assert isinstance(route, Route)
        source = make_source(
            route.parse_request(body), body, route, cast(MediaFetcher, None), lambda field: False, team_id="one", team_salts=SALTS
        )
        translated = translate_route(source, route, Recipient(build_provider("sglang", "s", options, BASE_URL), Target("s", "m")))
        return json.loads(translated.raw).get("cache_salt")

    assert sent() == SALTS.salt("one")
    assert sent(team_caches=False) is None
