"""Limits in a schema of an answer, for Claude at Bedrock: told to the model as a description, and checked in its answer."""

import json
from typing import Any

import pytest

from app.domain.routing import Target
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.translate_chat import translate_chat
from app.gateway.structured_output.checker.schema_checks import build_validator
from providers.canonical.output_format import JsonSchema
from providers.catalogue import build_provider
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.bedrock_converse import BedrockConverse
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.structured_output import read_constraint
from tests.support.request_translation import MEDIA, drop_nothing, make_source

CLAUDE = "us.anthropic.claude-sonnet-4-6"
LIMITED: dict[str, Any] = {
    "type": "object",
    "properties": {"title": {"type": "string", "minLength": 2}},
    "required": ["title"],
    "additionalProperties": False,
}
FREE = {**LIMITED, "properties": {"title": {"type": "string"}}}


@pytest.mark.parametrize("dialect", [BedrockConverse, AnthropicMessages])
@pytest.mark.parametrize(("schema", "enforcement"), [(LIMITED, "validated"), (FREE, "enforced")], ids=["limit", "no limit"])
async def test_limit_that_claude_at_bedrock_is_not_sent_is_checked(dialect: Any, schema: dict[str, Any], enforcement: str) -> None:
    json_schema = {"name": "n", "strict": True, "schema": schema}
    fields = {"messages": [{"role": "user", "content": "Hi"}], "response_format": {"type": "json_schema", "json_schema": json_schema}}
    raw = json.dumps({"model": "m", **fields}).encode()
    caller = CHAT_DIALECTS["openai_chat"]
    request = caller.parse_request(raw)
    constraint = read_constraint("openai_chat", request.body)
    source = make_source(request, raw, caller, MEDIA, drop_nothing, constraint=constraint)
    host = build_provider("bedrock", "aws", {"region": "us-east-1"})
    translated = await translate_chat(source, dialect(), Recipient(host, Target(provider="aws", model=CLAUDE)))

    plan = translated.constraint_plan
    assert plan is not None and plan.enforcement == enforcement
    # What the answer is checked against is the caller's schema, not the one that was sent.
    assert isinstance(plan.output, JsonSchema) and json.loads(bytes(plan.output.schema)) == schema
    sent = _sent_schema(json.loads(translated.raw))
    assert "minLength" not in sent["properties"]["title"]
    assert sent["properties"]["title"].get("description") == ('{"minLength":2}' if schema is LIMITED else None)
    validator = build_validator(schema)
    validator.validate({"title": "So"})
    if schema is LIMITED:
        with pytest.raises(Exception, match="shorter than 2"):
            validator.validate({"title": "S"})


def _sent_schema(body: dict[str, Any]) -> dict[str, Any]:
    if "outputConfig" in body:
        return json.loads(body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"])
    return body["output_config"]["format"]["schema"]
