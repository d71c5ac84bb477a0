"""Images to a target that reads none are refused, or left out, before anything is fetched: the image server gets no request."""

import json
from typing import Any

import pytest

from app.domain.routing import ProviderConfig, Target
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.request_translation.recipient import TargetTerms
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.target_media import without_fetching
from app.gateway.request_translation.translate_request import translate_request
from providers.adapters.probe import ALL_MODELS, ImageSupport
from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.catalogue import DIALECTS, build_provider
from providers.credentials import CredentialReader
from tests.integration.attempts.test_media_fetching import http_response, media_fetcher, url_on
from tests.support.raw_engine import respond_always, start_engine
from tests.support.request_translation import make_source

# By adapter: the model, and what a probe found.
BLIND: dict[str, tuple[str, ImageSupport]] = {
    "llamacpp": ("m", {ALL_MODELS: False}),
    "ollama": ("qwen3:8b", {"qwen3:8b": False, "llava:7b": True}),
    **dict.fromkeys(("mini_sglang", "llamacpp_python"), ("m", {})),
    "deepseek": ("deepseek-v4-pro", {}),
    "together": ("deepseek-ai/DeepSeek-V4-Pro", {}),
}
PATHS = {
    "openai_chat": "messages[0].content[1]",
    "openai_responses": "input[0].content[1]",
    "anthropic_messages": "messages[0].content[1]",
}


def body_with_image(api: str, url: str) -> dict[str, Any]:
    match api:
        case "openai_chat":
            parts: list[Any] = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": url}}]
            return {"messages": [{"role": "user", "content": parts}]}
        case "openai_responses":
            parts = [{"type": "input_text", "text": "?"}, {"type": "input_image", "image_url": url}]
            return {"input": [{"role": "user", "content": parts}]}
        case _:
            parts = [{"type": "text", "text": "?"}, {"type": "image", "source": {"type": "url", "url": url}}]
            return {"max_tokens": 9, "messages": [{"role": "user", "content": parts}]}


def source_for(media: Any, api: str, url: str, may_drop: bool = False) -> SourceRequest:
    raw = json.dumps({"model": "m", **body_with_image(api, url)}).encode()
    return make_source(DIALECTS[api].parse_request(raw), raw, DIALECTS[api], media, lambda _: may_drop)


def provider_of(adapter: str) -> tuple[Provider, Target]:
    model, image_support = BLIND[adapter]
    provider = build_provider(adapter, "p", {}, "http://127.0.0.1:1")
    provider.image_support = image_support
    return provider, Target("p", model)


def endpoint_of(provider: Provider) -> Endpoint:
    async def fetch_nothing(request: Any) -> tuple[int, bytes]:
        raise AssertionError("a translation needs no token")

    return Endpoint(ProviderConfig("p"), provider, "http://127.0.0.1:1", CredentialReader(lambda _: "", ()), fetch_nothing)


@pytest.mark.parametrize("adapter", BLIND)
@pytest.mark.parametrize("api", PATHS)
async def test_image_is_refused_at_the_callers_place_before_it_is_fetched(adapter: str, api: str):
    provider, target = provider_of(adapter)
    async with start_engine(respond_always(http_response())) as served, media_fetcher() as media:
        with pytest.raises(Unsupported) as refused:
            await translate_request(source_for(media, api, url_on(served)), endpoint_of(provider), target)
        assert refused.value.param == PATHS[api] and served.requests == []


@pytest.mark.parametrize("adapter", BLIND)
@pytest.mark.parametrize("api", PATHS)
async def test_image_that_may_be_dropped_is_left_out_unfetched_and_reported(adapter: str, api: str):
    provider, target = provider_of(adapter)
    async with start_engine(respond_always(http_response())) as served, media_fetcher() as media:
        source = source_for(media, api, url_on(served), may_drop=True)
        translated = await translate_request(source, endpoint_of(provider), target)
        assert PATHS[api] in translated.dropped and b"?" in translated.raw and b"image" not in translated.raw
        assert served.requests == []


async def test_next_target_that_reads_images_is_sent_them():
    async with start_engine(respond_always(http_response())) as served, media_fetcher() as media:
        source = source_for(media, "openai_chat", url_on(served))
        provider, target = provider_of("llamacpp")
        with pytest.raises(Unsupported):
            await translate_request(source, endpoint_of(provider), target)
        provider.image_support = {ALL_MODELS: True}
        translated = await translate_request(source, endpoint_of(provider), target)
        assert b"data:image/png;base64," in translated.raw and len(served.requests) == 1


@pytest.mark.parametrize(
    ("capabilities", "is_refused"), [(("chat", "tools"), True), (("chat", "vision"), False), (("tools",), False), ((), False)]
)
async def test_capabilities_of_the_configuration_say_whether_an_engines_model_reads_images(capabilities: Any, is_refused: bool):
    async with start_engine(respond_always(http_response())) as served, media_fetcher() as media:
        source = source_for(media, "openai_chat", url_on(served))
        terms = TargetTerms(capabilities=capabilities)
        endpoint, target = endpoint_of(build_provider("vllm", "p", {}, "http://127.0.0.1:1")), Target("p", "m")
        if is_refused:
            with pytest.raises(Unsupported, match="capabilities") as refused:
                await translate_request(source, endpoint, target, terms)
            assert refused.value.param == PATHS["openai_chat"]
        else:
            await translate_request(source, endpoint, target, terms)
        assert len(served.requests) == (0 if is_refused else 1)


async def test_naming_models_that_would_take_an_image_fetches_nothing():
    async with start_engine(respond_always(http_response())) as served, media_fetcher() as media:
        asking = without_fetching(source_for(media, "openai_chat", url_on(served)))
        endpoint = endpoint_of(build_provider("vllm", "p", {}, "http://127.0.0.1:1"))
        assert (await translate_request(asking, endpoint, Target("p", "m"))).dropped == [] and served.requests == []
