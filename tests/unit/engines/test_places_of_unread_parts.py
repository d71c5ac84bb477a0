"""A document that an engine does not read is refused at its place in the caller's own request, not in the chat that would be sent."""

from typing import Any

import pytest

from providers.canonical.errors import Unsupported
from providers.catalogue import build_provider
from tests.support.request_translation import send_to

ENGINES = ("sglang", "lmdeploy", "tgi", "llamacpp", "llamacpp_python", "mini_sglang", "transformers")
PDF = "JVBERi0x"
DOCUMENT = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}
USES: list[Any] = [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in "ab"]
RESULTS = [
    {"type": "tool_result", "tool_use_id": "a", "content": "r"},
    {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "r"}, DOCUMENT]},
]
# What is added or split on the way moves the document in each.
REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "anthropic_messages": (
        {
            "system": "s",
            "max_tokens": 9,
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": USES},
                {"role": "user", "content": RESULTS},
            ],
        },
        "messages[2].content[1].content[1]",
    ),
    "openai_responses": (
        {
            "instructions": "s",
            "input": [
                {"role": "user", "content": "x"},
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "x"},
                        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
                    ],
                },
            ],
        },
        "input[1].content[1]",
    ),
}


@pytest.mark.parametrize("caller", REQUESTS)
@pytest.mark.parametrize("engine", ENGINES)
def test_document_is_refused_at_the_callers_place(engine: str, caller: str) -> None:
    fields, place = REQUESTS[caller]
    with pytest.raises(Unsupported) as refused:
        send_to(build_provider(engine, engine, {}, "http://127.0.0.1:1/v1"), caller, fields, "m")
    assert refused.value.param == place and f"`{place}`" in refused.value.message


@pytest.mark.parametrize("caller", REQUESTS)
def test_document_that_may_go_is_reported_by_that_place(caller: str) -> None:
    fields, place = REQUESTS[caller]
    provider = build_provider("sglang", "sglang", {}, "http://127.0.0.1:1/v1")
    sent = send_to(provider, caller, fields, "m", lambda field: field == place.partition("[")[0])
    assert place in sent.dropped and PDF.encode() not in sent.raw
