"""xAI: the fields that each of its models accepts, its schemas, and its errors."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from providers.canonical.errors import CredentialRefused, Unsupported, UpstreamError, UpstreamNotFound, UpstreamRejected
from providers.canonical.output_format import JsonSchema
from providers.canonical.raw_json import Body
from providers.catalogue import build_provider
from providers.hosted.xai.adapter import XAI
from providers.structured_output import Constraint, read_constraint
from tests.support.adapted_body import adapt_body
from tests.support.request_translation import drop_everything, drop_nothing

XAI_HOST = XAI("x", {})
USER = [{"role": "user", "content": "Hi"}]


def test_xai_prefers_responses_over_chat_and_offers_no_messages() -> None:
    provider = build_provider("xai", "x", {})
    assert provider.spoken_dialects == ("openai_responses", "openai_chat")
    assert str(provider.url("https://api.x.ai/v1", "openai_responses")) == "https://api.x.ai/v1/responses"
    assert str(provider.url("http://127.0.0.1:9/a", "openai_chat")) == "http://127.0.0.1:9/a/v1/chat/completions"


@pytest.mark.parametrize("model", ["grok-4-fast", "grok-4.3", "grok-3-mini", "grok-code-fast-1", "grok-4-fast-reasoning", "grok-5"])
@pytest.mark.parametrize(("field", "value"), [("stop", ["END"]), ("presence_penalty", 0.5), ("frequency_penalty", -1)])
def test_reasoning_model_refuses_or_drops_stop_and_penalties(model: str, field: str, value: Any) -> None:
    with pytest.raises(Unsupported, match=model) as refused:
        adapt_body(XAI_HOST, {"model": model, "messages": USER, field: value})
    assert refused.value.param == field
    sent, dropped, _ = adapt_body(XAI_HOST, {"model": model, "messages": USER, field: value}, drop_everything)
    assert (sent, dropped) == ({"model": model, "messages": USER}, [field])
    neutral: Any = [] if field == "stop" else 0
    assert adapt_body(XAI_HOST, {"model": model, "messages": USER, field: neutral})[:2] == ({"model": model, "messages": USER}, [])


@pytest.mark.parametrize("model", ["grok-4-fast-non-reasoning", "grok-3", "grok-2-vision", "assistant"])
def test_other_models_accept_stop_and_penalties(model: str) -> None:
    request = {"model": model, "messages": USER, "stop": ["END"], "presence_penalty": 0.5}
    assert adapt_body(XAI_HOST, request)[:2] == (request, [])


EFFORTS = {
    **dict.fromkeys(["grok-3-mini", "grok-3-mini-fast", "grok-4.3", "grok-4.5", "grok-4.20-multi-agent-0309", "grok-6"], True),
    **dict.fromkeys(["grok-3", "grok-4", "grok-4-0709", "grok-4-1-fast", "grok-code-fast-1", "grok-4.20-0309-reasoning"], False),
}


@pytest.mark.parametrize(("model", "is_accepted"), EFFORTS.items())
def test_reasoning_effort_is_sent_only_to_models_that_accept_it(model: str, is_accepted: bool) -> None:
    chat = {"model": model, "messages": USER, "reasoning_effort": "low"}
    responses = {"model": model, "input": "Hi", "reasoning": {"effort": "low", "summary": "auto"}}
    if is_accepted:
        assert adapt_body(XAI_HOST, chat)[0] == chat
        assert adapt_body(XAI_HOST, responses, dialect="openai_responses")[0] == responses
        return
    for request, dialect, param in ((chat, "openai_chat", "reasoning_effort"), (responses, "openai_responses", "reasoning.effort")):
        sent, dropped, _ = adapt_body(XAI_HOST, request, dialect=dialect)
        assert "low" not in json.dumps(sent) and dropped == [param]
        # Such a model thinks, or does not, whatever the request says.
        sent, dropped, _ = adapt_body(XAI_HOST, json.loads(json.dumps(request).replace("low", "none")), dialect=dialect)
        assert "none" not in json.dumps(sent) and dropped == [param]


def read_required_constraint(dialect: str, body: Body) -> Constraint:
    constraint = read_constraint(dialect, body)
    assert constraint is not None
    return constraint


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_schema_is_enforced_or_validated_by_its_grammar_coverage(dialect: str) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    format: dict[str, Any] = {"type": "json_schema", "name": "a", "schema": schema}
    request: dict[str, Any] = {"model": "grok-4.3", "input": "Hi", "text": {"format": format}}
    if dialect == "openai_chat":
        named: dict[str, Any] = {"name": "a", "schema": schema}
        request = {"model": "grok-4.3", "messages": USER, "response_format": {"type": "json_schema", "json_schema": named}}
    body = Body.read(json.dumps(request).encode())
    constraint = read_required_constraint(dialect, body)
    sent = Body(body)
    enforced_plan = XAI_HOST.adapt_request(sent, dialect, drop_nothing, constraint).constraint_plan
    assert enforced_plan is not None
    assert json.loads(sent.write()) == request
    assert enforced_plan.enforcement == "enforced"
    assert isinstance(enforced_plan.output, JsonSchema)
    validated_plan = XAI_HOST.adapt_request(
        Body(body), dialect, drop_nothing, replace(constraint, uncovered_paths=frozenset({constraint.field}))
    ).constraint_plan
    assert validated_plan is not None
    assert validated_plan.enforcement == "validated"


def test_strict_tool_with_a_partly_enforced_schema_is_refused() -> None:
    function = {"name": "f", "parameters": {"type": "object"}, "strict": True}
    body = Body.read(json.dumps({"model": "grok-4.3", "messages": USER, "tools": [{"type": "function", "function": function}]}).encode())
    constraint = read_required_constraint("openai_chat", body)
    assert XAI_HOST.adapt_request(Body(body), "openai_chat", drop_nothing, constraint).dropped == []
    ((path, _),) = constraint.strict_tools
    with pytest.raises(Unsupported, match="part"):
        XAI_HOST.adapt_request(Body(body), "openai_chat", drop_nothing, replace(constraint, uncovered_paths=frozenset({path})))


ERRORS: list[tuple[int, str, str, type[UpstreamError]]] = [
    (400, "invalid-argument", "Incorrect API key provided. You can obtain one from the console.", CredentialRefused),
    (400, "invalid-argument", "Model not found: grok-nonesuch", UpstreamNotFound),
    (400, "invalid-argument", "Something else.", UpstreamRejected),
    (403, "permission-denied", "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO", UpstreamRejected),
    (403, "permission-denied", "Your newly created team has no credits yet.", CredentialRefused),
]


@pytest.mark.parametrize(("status", "code", "message", "error"), ERRORS)
def test_error_message_selects_the_error_class(status: int, code: str, message: str, error: type[UpstreamError]) -> None:
    read = XAI_HOST.read_error(status, {}, json.dumps({"code": code, "error": message}).encode())
    assert (type(read), read.upstream_status, read.upstream_code) == (error, status, code)
    assert message in read.message
