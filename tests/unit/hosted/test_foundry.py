"""Claude on Microsoft Foundry: addresses, credentials, what it lacks of Anthropic's API, and deployments of any name."""

import json
from typing import Any

import pytest

from app.domain.routing import Target
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported, UpstreamNotFound
from providers.catalogue import build_provider, provider_url
from providers.profiles.claude.models import NEWEST, find_deployment_profile, find_profile
from tests.support.request_translation import drop_everything, send_to

RESOURCE = "https://ours.services.ai.azure.com"
MESSAGES, CHAT, RESPONSES = "anthropic_messages", "openai_chat", "openai_responses"
HI: Any = [{"role": "user", "content": "Hi"}]
CLOSED: Any = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
FORMAT: Any = {"format": {"type": "json_schema", "schema": CLOSED}}


def foundry(**options: Any) -> Provider:
    return build_provider("azure", "az", {"resource": "ours", "api": "anthropic", **options})


def messages(**fields: Any) -> dict[str, Any]:
    return {"messages": HI, "max_tokens": 4000, **fields}


@pytest.mark.parametrize("base_url", [None, RESOURCE, f"{RESOURCE}/anthropic/", f"{RESOURCE}/anthropic/v1/messages", f"{RESOURCE}/models"])
def test_each_address_that_the_portal_shows_leads_to_anthropics_api(base_url: str | None):
    options = {"api": "anthropic", **({"resource": "ours"} if base_url is None else {})}
    provider = build_provider("azure", "az", options, base_url)
    address = base_url or provider.default_base_url or ""
    assert str(provider.url(address, MESSAGES, "m", True)) == f"{RESOURCE}/anthropic/v1/messages"
    assert str(provider.url(address, "anthropic_count_tokens")) == f"{RESOURCE}/anthropic/v1/messages/count_tokens"
    assert (provider_url("azure", "az", options, base_url) or "").startswith(RESOURCE)
    assert provider.spoken_dialects == (MESSAGES, "anthropic_count_tokens")


def test_keys_and_tokens_of_entra_go_into_their_own_headers():
    version = ("anthropic-version", "2023-06-01")
    assert foundry().headers("key", MESSAGES) == [("api-key", "key"), version]
    beta = ("anthropic-beta", "context-1m-2025-08-07")
    assert foundry(anthropic_beta=[beta[1]]).headers("eyJ0.e.s", MESSAGES) == [("authorization", "Bearer eyJ0.e.s"), version, beta]


def test_unknown_deployment_is_a_model_that_is_not_found():
    error = {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}}
    assert isinstance(foundry().read_error(404, {}, json.dumps(error).encode()), UpstreamNotFound)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"hosting": "aws"}, "hosting"),
        ({"structured_outputs": "no"}, "structured_outputs"),
        ({"deployments": ["x"]}, "deployments"),
        ({"api_version": "2024-10-21"}, "api_version"),
        ({"resource": "a/b"}, "resource"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], named: str):
    with pytest.raises(InvalidOption, match=named):
        foundry(**options)


def test_options_of_claude_are_refused_where_azure_serves_other_models():
    with pytest.raises(InvalidOption, match="anthropic"):
        build_provider("azure", "az", {"resource": "ours", "hosting": "azure"})
    assert "resource" in (build_provider("azure", "az", {"api": "anthropic"}).base_url_required_reason or "")


@pytest.mark.parametrize("base_url", [f"{RESOURCE}/anthropic", "https://ours.openai.azure.com/anthropic"])
def test_anthropic_adapter_at_a_resource_has_the_same_rules(base_url: str):
    provider = build_provider("anthropic", "claude", {}, base_url)
    assert str(provider.url(base_url, MESSAGES)) == f"{base_url}/v1/messages" and provider.headers("key")[0] == ("api-key", "key")
    assert (provider.model_list_path, provider.binding_controls_beta, provider.claude_host) == (None, None, foundry().claude_host)
    elsewhere = build_provider("anthropic", "claude", {}, "https://gateway.example")
    assert elsewhere.claude_host is None and elsewhere.headers("key")[0] == ("x-api-key", "key")


NEWER_SEARCH: Any = {"type": "web_search_20260209", "name": "web_search"}
BASIC_SEARCH: Any = {"type": "web_search_20250305", "name": "web_search"}
CODE: Any = {"type": "code_execution_20250825", "name": "code_execution"}


@pytest.mark.parametrize(
    ("hosting", "tool", "is_taken"),
    [
        ("azure", BASIC_SEARCH, True),
        ("azure", NEWER_SEARCH, False),
        ("azure", CODE, False),
        ("anthropic", NEWER_SEARCH, True),
        ("anthropic", CODE, True),
        ("anthropic", {"type": "advisor_20260301", "name": "advisor"}, False),
    ],
)
def test_tool_that_the_hosting_lacks_is_refused_by_its_place_or_left_out(hosting: str, tool: Any, is_taken: bool):
    fields = messages(tools=[{"name": "f", "input_schema": {"type": "object"}}, tool])
    if is_taken:
        sent = send_to(foundry(hosting=hosting), MESSAGES, fields, "claude-opus-5")
        assert json.loads(sent.raw)["tools"] == fields["tools"] and sent.dropped == []
        return
    with pytest.raises(Unsupported) as refused:
        send_to(foundry(hosting=hosting), MESSAGES, fields, "claude-opus-5")
    assert refused.value.param == "tools[1]" and tool["type"] in refused.value.message
    sent = send_to(foundry(hosting=hosting), MESSAGES, fields, "claude-opus-5", drop_everything)
    assert json.loads(sent.raw)["tools"] == fields["tools"][:1] and sent.dropped == ["tools[1]"]


@pytest.mark.parametrize("field", ["inference_geo", "fallbacks", "safeguards"])
def test_field_that_foundry_lacks_is_refused_by_name(field: str):
    with pytest.raises(Unsupported) as refused:
        send_to(foundry(), MESSAGES, messages(**{field: "us"}), "claude-opus-5")
    assert refused.value.param == field
    sent = send_to(foundry(), MESSAGES, messages(speed="fast"), "claude-opus-5")
    assert b"speed" not in sent.raw and sent.dropped == ["speed"]


def test_instruction_midway_is_the_users_marked_text_for_every_model():
    turns = [*HI, {"role": "assistant", "content": "Yes?"}, *HI, {"role": "system", "content": "In Welsh."}]
    sent = send_to(foundry(), MESSAGES, messages(messages=turns), "claude-fable-5-1")
    assert [each["role"] for each in json.loads(sent.raw)["messages"]] == ["user", "assistant", "user"]
    assert b"In Welsh." in sent.raw and sent.dropped == ["messages[3].role"]


SCHEMAS: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HI, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": CLOSED, "strict": True}}},
    RESPONSES: {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "x", "schema": CLOSED, "strict": True}}},
    MESSAGES: messages(output_config=FORMAT),
}


@pytest.mark.parametrize("caller", SCHEMAS)
def test_schema_stands_in_the_prompt_and_is_checked_where_deployments_take_none(caller: str):
    sent = send_to(foundry(), caller, SCHEMAS[caller], "claude-opus-5")
    assert json.loads(sent.raw)["output_config"] == FORMAT
    assert sent.constraint_plan is not None and sent.constraint_plan.enforcement == "enforced"
    sent = send_to(foundry(structured_outputs=False), caller, SCHEMAS[caller], "claude-opus-5")
    body = json.loads(sent.raw)
    assert "output_config" not in body and "must be valid against this JSON schema" in json.dumps(body["system"])
    assert sent.constraint_plan is not None and sent.constraint_plan.enforcement == "validated"


@pytest.mark.parametrize("caller", [CHAT, MESSAGES])
def test_calls_of_strict_tools_are_checked_where_deployments_take_no_schemas(caller: str):
    function = {"name": "f", "strict": True}
    fields = {
        CHAT: {"messages": HI, "tools": [{"type": "function", "function": {**function, "parameters": CLOSED}}]},
        MESSAGES: messages(tools=[{**function, "input_schema": CLOSED}]),
    }[caller]
    sent = send_to(foundry(structured_outputs=False), caller, fields, "claude-opus-5")
    assert "strict" not in json.loads(sent.raw)["tools"][0]
    assert sent.emulation is not None and [*sent.emulation.strict_tools] == ["f"]


def test_claude_on_bedrock_that_compiles_no_schemas_gets_none_from_callers_of_messages():
    bedrock = build_provider("bedrock", "aws", {"region": "us-east-1"})
    sent = send_to(bedrock, MESSAGES, SCHEMAS[MESSAGES], "", target=Target("aws", "us.anthropic.claude-fable-5", dialect=MESSAGES))
    assert b"output_config" not in sent.raw and sent.constraint_plan is not None and sent.constraint_plan.enforcement == "validated"


@pytest.mark.parametrize(
    ("deployment", "model"),
    [("claude-opus-4-8", "claude-opus-4-8"), ("prod-opus-4-8", "claude-opus-4-8"), ("team-sonnet", "claude-sonnet"), ("our-chat", None)],
)
def test_deployments_name_tells_its_model_or_it_has_the_strictest_rules(deployment: str, model: str | None):
    assert find_deployment_profile(deployment) == (NEWEST if model is None else find_profile(model))


def test_option_tells_the_model_of_a_deployment_whose_name_does_not():
    fields = messages(temperature=0.2, thinking={"type": "disabled"})
    unknown = send_to(foundry(), MESSAGES, fields, "our-chat")
    assert b"temperature" not in unknown.raw and "temperature" in unknown.dropped
    named = send_to(foundry(deployments={"our-chat": "claude-haiku-4-5"}), MESSAGES, fields, "our-chat")
    assert json.loads(named.raw) == {"model": "our-chat", **fields} and named.dropped == []
