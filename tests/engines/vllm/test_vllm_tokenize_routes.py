"""vLLM's tokenizer routes through the gateway, in each supported format, and its pooling routes."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.engines.running_narthex import MODEL, Gateway
from tests.engines.vllm.running_vllm import CONTEXT, Engine

pytestmark = pytest.mark.engines

HI = [{"role": "user", "content": "hi there"}]


@pytest.fixture(scope="module")
def caller(narthex: Gateway) -> Iterator[httpx2.Client]:
    key = {"authorization": f"Bearer {narthex.key}"}
    with httpx2.Client(base_url=narthex.base_url.removesuffix("/v1"), headers=key, timeout=60) as client:
        yield client


def post_json(caller: httpx2.Client, path: str, **fields: Any) -> Any:
    answer = caller.post(path, json={"model": MODEL, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_tokenize_matches_the_engine_and_detokenize_restores_the_text(caller: httpx2.Client, vllm: Engine):
    fields: dict[str, Any] = {"prompt": "hi there", "return_token_strs": True}
    tokenized = post_json(caller, "/tokenize", **fields)
    with httpx2.Client(base_url=vllm.base_url.removesuffix("/v1"), timeout=60) as direct:
        assert tokenized == direct.post("/tokenize", json={"model": vllm.model, **fields}).json()
    assert tokenized["count"] == len(tokenized["tokens"]) == len(tokenized["token_strs"]) > 0 and tokenized["max_model_len"] == CONTEXT
    bare = post_json(caller, "/v1/tokenize", prompt="hi there", add_special_tokens=False)
    assert "hi there" in post_json(caller, "/detokenize", tokens=bare["tokens"])["prompt"]


def test_chat_is_tokenized_with_its_template(caller: httpx2.Client):
    with_generation_prompt = post_json(caller, "/tokenize", messages=HI)
    without_generation_prompt = post_json(caller, "/tokenize", messages=HI, add_generation_prompt=False)
    assert (
        with_generation_prompt["count"] > 0
        and with_generation_prompt["tokens"][: without_generation_prompt["count"]] == without_generation_prompt["tokens"]
    )
    usage = post_json(caller, "/v1/chat/completions", messages=HI, max_tokens=1)["usage"]
    assert usage["prompt_tokens"] == with_generation_prompt["count"]


def test_lmdeploy_encode_route_returns_the_same_tokens(caller: httpx2.Client):
    tokens = post_json(caller, "/tokenize", prompt="hi there")["tokens"]
    assert post_json(caller, "/v1/encode", input="hi there") == {"input_ids": tokens, "length": len(tokens)}


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/rerank", {"query": "q", "documents": ["a"]}),
        ("/score", {"text_1": "a", "text_2": "b"}),
        ("/classify", {"input": "a"}),
        ("/pooling", {"input": "a"}),
    ],
)
def test_generative_model_answers_pooling_routes_with_501(caller: httpx2.Client, path: str, fields: dict[str, Any]):
    refused = caller.post(path, json={"model": MODEL, **fields})
    error = refused.json()["error"]
    assert (refused.status_code, error["type"]) == (501, "unsupported") and f"does not serve {path}" in error["message"]


def test_tokenize_error_is_reported_and_unsupported_field_refused(caller: httpx2.Client):
    refused = caller.post("/tokenize", json={"model": MODEL, "messages": HI, "add_generation_prompt": True, "continue_final_message": True})
    assert refused.status_code == 400 and "continue_final_message" in refused.json()["error"]["message"]
    ignored = caller.post("/detokenize", json={"model": MODEL, "tokens": [1], "skip_special_tokens": True})
    assert (ignored.status_code, ignored.json()["error"]["param"]) == (422, "skip_special_tokens")
