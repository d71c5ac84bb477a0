"""A `prompt` in place of messages, as mini-sglang's and vLLM's chat take it, at every adapter."""

import asyncio
import json

import pytest

from app.domain.routing import Target
from app.gateway.request_translation.translate_request import translate_request
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.catalogue import ADAPTERS, DIALECTS, build_provider
from providers.dialects.catalogue import RAW_PROMPT_DIALECTS
from tests.support.request_translation import MEDIA, drop_nothing, endpoint_of, make_source

OPTIONS = {
    "azure": {"api_version": "2026-10-01"},
    "bedrock": {"region": "us-east-1"},
    "sagemaker": {"region": "us-east-1"},
    "vertex": {"project": "p", "location": "us-east5"},
}
MODELS = {"bedrock": "us.amazon.nova-pro-v1:0", "vertex": "gemini-3.1-pro-preview", "gemini": "gemini-3.1-pro-preview"}


def translate(adapter: str, caller: str) -> TranslatedRequest:
    raw = json.dumps({"model": "m", "prompt": "Once upon a time", "max_tokens": 9}).encode()
    dialect = DIALECTS[caller]
    source = make_source(dialect.parse_request(raw), raw, dialect, MEDIA, drop_nothing)
    provider = build_provider(adapter, "it", OPTIONS.get(adapter, {}), "http://engine")
    return asyncio.run(translate_request(source, endpoint_of(provider), Target("it", MODELS.get(adapter, "m"))))


@pytest.mark.parametrize("caller", ["openai_chat", "openai_completions"])
@pytest.mark.parametrize("adapter", sorted(ADAPTERS))
def test_prompt_is_sent_as_it_is_or_as_a_message_which_is_reported(adapter: str, caller: str) -> None:
    translated = translate(adapter, caller)
    body = json.loads(translated.raw)
    is_raw = translated.dialect.name in RAW_PROMPT_DIALECTS or adapter == "mini_sglang"
    assert "Once upon a time" in json.dumps(body)
    assert ("messages" in body or "contents" in body or "input" in body) is (not is_raw and "prompt" not in body and "inputs" not in body)
    reported = () if translated.emulation is None else translated.emulation.fields
    assert ("prompt" in reported) is (not is_raw)
