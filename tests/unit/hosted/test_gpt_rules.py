"""The rules of OpenAI's models at the hosts that have them: efforts, and what a model refuses while it reasons."""

from typing import Any

import pytest

from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.catalogue import build_provider
from providers.hosted.azure.adapter import Azure
from providers.hosted.openai.adapter import OpenAI
from tests.support.adapted_body import adapt_body
from tests.support.request_translation import drop_everything

HOSTS = [OpenAI("o", {}), OpenAI("o", {}, None, "https://eu.api.openai.com/v1"), Azure("az", {"resource": "r"})]
PROMPTS: dict[str, dict[str, Any]] = {"openai_chat": {"messages": [{"role": "user", "content": "Hi"}]}, "openai_responses": {"input": "Hi"}}

# (model, effort) -> what Chat and what Responses get; None: no effort.
EFFORTS: dict[tuple[str, str], tuple[str | None, str | None]] = {
    ("gpt-5", "minimal"): ("minimal", "minimal"),
    ("gpt-5-mini", "none"): ("minimal", "minimal"),
    ("gpt-5", "xhigh"): ("high", "high"),
    ("gpt-5.1", "minimal"): ("low", "low"),
    ("gpt-5.1", "none"): ("none", "none"),
    ("gpt-5.4", "max"): ("xhigh", "xhigh"),
    ("gpt-5.6-sol", "max"): ("xhigh", "max"),
    ("gpt-5.6-sol", "minimal"): ("low", "low"),
    ("gpt-6-sol", "none"): ("none", "none"),
    ("gpt-6-astra", "none"): ("low", "low"),
    ("gpt-6.1-sol", "minimal"): ("low", "low"),
    ("gpt-6.2-sol", "max"): ("xhigh", "max"),
    ("gpt-6.3-made-up", "none"): ("low", "low"),
    ("gpt-5.2-chat-latest", "high"): ("medium", "medium"),
    ("o3", "xhigh"): ("high", "high"),
    ("gpt-4o", "low"): (None, None),
    ("gpt-5-chat-latest", "low"): (None, None),
    ("the-company-model", "max"): ("max", "max"),
    ("gpt-5.6-sol", "a new one"): ("a new one", "a new one"),
}


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: f"{host.name} {host.base_url}")
def test_an_effort_that_the_model_refuses_becomes_the_nearest_and_is_reported(host: Provider) -> None:
    for (model, effort), (in_chat, in_responses) in EFFORTS.items():
        sent, dropped, _ = adapt_body(host, {"model": model, **PROMPTS["openai_chat"], "reasoning_effort": effort})
        assert (sent.get("reasoning_effort"), dropped) == (in_chat, [] if in_chat == effort else ["reasoning_effort"]), (model, effort)
        reasoning = {"effort": effort, "summary": "auto"}
        sent, dropped, _ = adapt_body(
            host, {"model": model, **PROMPTS["openai_responses"], "reasoning": reasoning}, dialect="openai_responses"
        )
        expected = {"summary": "auto"} if in_responses is None else {**reasoning, "effort": in_responses}
        assert (sent["reasoning"], dropped) == (expected, [] if in_responses == effort else ["reasoning.effort"]), (model, effort)


WISHES = {"temperature": 0.2, "top_p": 0.5}
REFUSED = {"presence_penalty": 0.5, "frequency_penalty": 0.5, "logit_bias": {"1": 5}, "logprobs": True, "top_logprobs": 2}
NEUTRAL: dict[str, Any] = {"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "logit_bias": {}, "logprobs": False}

# Model -> efforts with which it reasons; "": without one.
REASONING = {
    "gpt-5": ["", "low"],
    "gpt-5.2": ["low", "xhigh"],
    "gpt-5.4": ["high"],
    "gpt-5.5": ["", "low"],
    "gpt-5.6-sol": ["", "max"],
    "gpt-6.2-sol": ["", "none", "low"],
    "gpt-9-made-up": ["", "none"],
    "o3": [""],
}
NOT_REASONING = {"gpt-5.2": ["", "none"], "gpt-5.4": [""], "gpt-5.6-sol": ["none"], "gpt-6-sol": ["none"], "gpt-4o": [""], "my-model": [""]}


def _chat(model: str, effort: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"model": model, **PROMPTS["openai_chat"], **fields, **({"reasoning_effort": effort} if effort else {})}


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: f"{host.name} {host.base_url}")
def test_while_a_model_reasons_wishes_are_dropped_and_other_sampling_is_refused(host: Provider) -> None:
    for model, efforts in REASONING.items():
        for effort in efforts:
            sent, dropped, _ = adapt_body(host, _chat(model, effort, WISHES))
            assert not WISHES.keys() & sent.keys() and {*WISHES} <= {*dropped}, (model, effort)
            assert NEUTRAL.items() <= adapt_body(host, _chat(model, effort, NEUTRAL))[0].items(), (model, effort)
            for field, value in REFUSED.items():
                with pytest.raises(Unsupported) as refused:
                    adapt_body(host, _chat(model, effort, {field: value}))
                assert refused.value.param == field and model in refused.value.message
                sent, dropped, _ = adapt_body(host, _chat(model, effort, {field: value}), drop_everything)
                assert field not in sent and field in dropped


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: f"{host.name} {host.base_url}")
def test_a_model_that_does_not_reason_gets_all_sampling_fields(host: Provider) -> None:
    for model, efforts in NOT_REASONING.items():
        for effort in efforts:
            fields = {**WISHES, **REFUSED}
            sent, dropped, _ = adapt_body(host, _chat(model, effort, fields))
            assert fields.items() <= sent.items() and dropped == [], (model, effort)


def test_responses_have_the_same_rules() -> None:
    host = OpenAI("o", {})
    body = {"model": "gpt-5.6-sol", "input": "Hi", "temperature": 0.2}
    assert adapt_body(host, body, dialect="openai_responses")[:2] == ({"model": "gpt-5.6-sol", "input": "Hi"}, ["temperature"])
    include = {**body, "temperature": 1, "include": ["message.output_text.logprobs", "other"]}
    with pytest.raises(Unsupported) as refused:
        adapt_body(host, include, dialect="openai_responses")
    assert refused.value.param == "include"
    sent, dropped, _ = adapt_body(host, include, drop_everything, dialect="openai_responses")
    assert (sent["include"], dropped) == (["other"], ["include"])
    off = {**body, "reasoning": {"effort": "none"}}
    assert adapt_body(host, off, dialect="openai_responses")[:2] == (off, [])


def test_nothing_follows_from_names_at_another_address() -> None:
    other = OpenAI("o", {}, None, "http://10.0.0.5:8000")
    for fields in (_chat("gpt-6.2-sol", "none", {**WISHES, **REFUSED}), _chat("gpt-4o", "max", WISHES)):
        assert adapt_body(other, fields)[:2] == (fields, [])


def test_an_operator_who_accepts_a_field_gets_it_sent() -> None:
    host = OpenAI("o", {"accepts": ["temperature", "reasoning_effort"]})
    fields = _chat("gpt-6.2-sol", "none", {"temperature": 0.2})
    assert adapt_body(host, fields)[:2] == (fields, [])


@pytest.mark.parametrize("dialect", PROMPTS)
def test_names_of_users_and_caches_that_are_too_long_become_hashes(dialect: str) -> None:
    fields = {"user": "u" * 150, "safety_identifier": "s" * 65, "prompt_cache_key": "k" * 64}
    for host in HOSTS:
        sent, dropped, _ = adapt_body(host, {"model": "gpt-4o", **PROMPTS[dialect], **fields}, dialect=dialect)
        assert sorted(dropped) == ["safety_identifier", "user"] and sent["prompt_cache_key"] == "k" * 64
        assert len(sent["user"]) == len(sent["safety_identifier"]) == 64 and sent["user"] != sent["safety_identifier"]
        assert adapt_body(host, {"model": "gpt-4o", **PROMPTS[dialect], **fields}, dialect=dialect)[0] == sent


OPENROUTER = build_provider("openrouter", "router", {})
MANTLE = build_provider("bedrock", "aws", {"region": "us-east-1", "api": "mantle"})
FOUNDRY = build_provider("azure", "az", {"resource": "r", "api": "models"})


@pytest.mark.parametrize("model", REASONING)
def test_openrouter_gets_no_sampling_for_which_no_host_of_the_model_would_be_found(model: str) -> None:
    for effort in REASONING[model]:
        fields = _chat(f"openai/{model}", effort, {"tools": [], **WISHES})
        sent, dropped, _ = adapt_body(OPENROUTER, fields)
        assert not WISHES.keys() & sent.keys() and {*WISHES} <= {*dropped}, effort
        sent, dropped, _ = adapt_body(OPENROUTER, _chat(f"openai/{model}", effort, NEUTRAL))
        assert not NEUTRAL.keys() & sent.keys() and {*dropped} <= {"reasoning_effort"}, effort
        for field, value in REFUSED.items():
            with pytest.raises(Unsupported) as refused:
                adapt_body(OPENROUTER, _chat(f"openai/{model}", effort, {field: value}))
            assert refused.value.param == field


@pytest.mark.parametrize(
    ("model", "asked", "sent_effort"),
    [
        ("openai/gpt-6.2-sol", "none", "low"),
        ("openai/gpt-5", "none", "minimal"),
        ("openai/o3", "none", "low"),
        ("openai/gpt-5.6-sol", "none", "none"),
        ("openai/o3", "xhigh", "xhigh"),  # it finds the nearest itself
        ("openai/gpt-4.1", "none", "none"),
        ("openai/gpt-oss-120b", "none", "low"),
    ],
)
def test_openrouter_gets_no_effort_none_for_a_model_that_always_reasons(model: str, asked: str, sent_effort: str) -> None:
    sent, dropped, _ = adapt_body(OPENROUTER, _chat(model, asked, {}))
    assert (sent["reasoning"], dropped) == ({"effort": sent_effort}, [] if asked == sent_effort else ["reasoning_effort"])
    sent, dropped, _ = adapt_body(OPENROUTER, _chat(model, "", {"reasoning": {"effort": asked, "exclude": True}}))
    if model != "openai/gpt-oss-120b":
        assert (sent["reasoning"], dropped) == (
            {"effort": sent_effort, "exclude": True},
            [] if asked == sent_effort else ["reasoning.effort"],
        )


def test_models_that_do_not_reason_keep_their_sampling_at_openrouter() -> None:
    for model, effort in (("openai/gpt-4.1", ""), ("openai/gpt-5.6-sol", "none"), ("openai/gpt-oss-120b", ""), ("acme/not-gpt-5", "")):
        sent, dropped, _ = adapt_body(OPENROUTER, _chat(model, effort, WISHES))
        assert WISHES.items() <= sent.items() and dropped == [], model


def test_models_of_openai_on_mantle_and_foundry_have_their_rules() -> None:
    for host, model in ((MANTLE, "openai.gpt-5.6-sol"), (FOUNDRY, "prod-gpt-5.6")):
        sent, dropped, _ = adapt_body(host, _chat(model, "max", {"temperature": 0.2, "max_completion_tokens": 9}))
        assert sent == _chat(model, "xhigh", {"max_completion_tokens": 9}) and sorted(dropped) == ["reasoning_effort", "temperature"]
    sent, dropped, _ = adapt_body(MANTLE, _chat("openai.gpt-5.6-sol", "", {"max_tokens": 9}))
    assert (sent, dropped) == (_chat("openai.gpt-5.6-sol", "", {"max_completion_tokens": 9}), [])
    body = {"model": "openai.gpt-6.2-sol", "input": "Hi", "reasoning": {"effort": "none"}, "top_p": 0.5}
    sent, dropped, _ = adapt_body(MANTLE, body, dialect="openai_responses")
    assert (sent["reasoning"], "top_p" in sent, dropped) == ({"effort": "low"}, False, ["reasoning.effort", "top_p"])
    open_model = _chat("openai.gpt-oss-120b", "high", {"temperature": 0.2, "max_tokens": 9})
    assert adapt_body(MANTLE, open_model)[:2] == (open_model, [])
