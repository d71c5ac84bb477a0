"""Claude's rules at every host and for every caller: no request holds what the model refuses, and whatever changes is reported or refused.

The rules are those of Anthropic's models as of 2026-11, written here once more as what a host answers with a 400.
"""

import json
from typing import Any, cast

import pytest

from app.domain.routing import Target
from app.gateway.request_translation.translate_request import translate_request
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.catalogue import build_provider
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.structured_output import read_constraint
from tests.support.request_translation import MEDIA, drop_nothing, endpoint_of, make_source

MODELS = {
    # Forced calls; thinking off; efforts; sampling; prefill; system messages midway.
    "claude-fable-5-2": (False, "never", "all", "never", False, True),
    "claude-mythos-5-1": (False, "never", "all", "never", False, True),
    "claude-fable-5": (True, "never", "all", "never", False, True),
    "claude-opus-5-5": (False, "never", "all", "never", False, True),
    "claude-sonnet-5-5": (False, "between_tools", "all", "never", False, True),
    "claude-haiku-5-5": (True, "disabled", "all", "never", False, True),
    "claude-opus-5": (True, "disabled", "all", "never", False, True),
    "claude-sonnet-5": (True, "disabled", "all", "never", False, False),
    "claude-opus-4-8": (True, "disabled", "all", "never", False, True),
    "claude-opus-4-7": (True, "disabled", "all", "never", False, False),
    "claude-sonnet-4-6": (True, "disabled", "no xhigh", "one", False, False),
    "claude-opus-4-5": (True, "disabled", "to high", "one", True, False),
    "claude-sonnet-4-5": (True, "disabled", "none", "one", True, False),
    # Not known: the newest rules of their lines.
    "claude-opus-6-1": (False, "never", "all", "never", False, True),
    "claude-sonnet-5-6": (False, "between_tools", "all", "never", False, True),
    "claude-haiku-6": (True, "disabled", "all", "never", False, True),
}
EFFORTS = {
    "all": {"low", "medium", "high", "xhigh", "max"},
    "no xhigh": {"low", "medium", "high", "max"},
    "to high": {"low", "medium", "high"},
    "none": set[str](),
}
HOSTS: dict[str, tuple[Provider, str, str | None]] = {
    "anthropic": (build_provider("anthropic", "claude", {}), "{}", None),
    "converse": (build_provider("bedrock", "aws", {"region": "us-east-1"}), "us.anthropic.{}", "bedrock_converse"),
    "invoke": (build_provider("bedrock", "aws", {"region": "us-east-1", "api": "invoke"}), "us.anthropic.{}", None),
    "mantle": (build_provider("bedrock", "aws", {"region": "us-east-1", "api": "mantle"}), "anthropic.{}", None),
    "foundry": (build_provider("azure", "cloud", {"resource": "r", "api": "anthropic"}), "prod-{}", None),
    "vertex": (build_provider("vertex", "cloud", {"project": "p"}), "{}", None),
    "openrouter": (build_provider("openrouter", "openrouter", {}), "anthropic/{}", None),
}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
ROOTLESS = {"properties": {"city": {"type": "string"}}}
ALTERNATIVES = {"type": "object", "anyOf": [SCHEMA, {"type": "object", "properties": {"zip": {"type": "string"}}}]}
# Limits that are left out of a schema of an answer, and then checked.
LIMITED = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"], "additionalProperties": False}
UNSIGNED = {"type": "thinking", "thinking": "Hm.", "signature": ""}
HI, ANSWER = {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes?"}
# By caller: what each situation adds to a plain request.
SITUATIONS: dict[str, dict[str, dict[str, Any]]] = {
    "openai_chat": {
        "forced": {"tool_choice": "required"},
        "named": {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        "forced while thinking": {"tool_choice": "required", "reasoning_effort": "high"},
        "none": {"reasoning_effort": "none"},
        "max": {"reasoning_effort": "max"},
        "xhigh": {"reasoning_effort": "xhigh"},
        "temperature": {"temperature": 0.7},
        "temperature and top_p": {"temperature": 0.7, "top_p": 0.9},
        "prefill": {"messages": [HI, ANSWER]},
        "system midway": {"messages": [HI, ANSWER, HI, {"role": "system", "content": "In Welsh."}, HI]},
        "blank stop": {"stop": ["END", " "]},
        "tool without a type": {"tools": [{"type": "function", "function": {"name": "f", "parameters": ROOTLESS}}]},
        "tool with alternatives": {"tools": [{"type": "function", "function": {"name": "f", "parameters": ALTERNATIVES}}]},
        "limits": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": LIMITED, "strict": True}}},
        "strict tool": {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}]},
        "unsigned thinking": {"messages": [HI, {**ANSWER, "reasoning_content": "Hm."}, HI]},
    },
    "openai_responses": {
        "forced": {"tool_choice": "required"},
        "none": {"reasoning": {"effort": "none"}},
        "max": {"reasoning": {"effort": "max"}},
        "temperature and top_p": {"temperature": 0.7, "top_p": 0.9},
        "prefill": {"input": [HI, ANSWER]},
        "system midway": {"input": [HI, ANSWER, HI, {"role": "developer", "content": "In Welsh."}, HI]},
        "tool without a type": {"tools": [{"type": "function", "name": "f", "parameters": ROOTLESS}]},
        "tool with alternatives": {"tools": [{"type": "function", "name": "f", "parameters": ALTERNATIVES}]},
        "limits": {"text": {"format": {"type": "json_schema", "name": "x", "schema": LIMITED, "strict": True}}},
        "strict tool": {"tools": [{"type": "function", "name": "f", "parameters": SCHEMA, "strict": True}]},
        "unsigned thinking": {
            "input": [HI, {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}, ANSWER, HI]
        },
    },
    "anthropic_messages": {
        "forced": {"tool_choice": {"type": "any"}},
        "named": {"tool_choice": {"type": "tool", "name": "f"}},
        "forced while thinking": {"tool_choice": {"type": "any"}, "thinking": {"type": "enabled", "budget_tokens": 1024}},
        "budget": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        "disabled": {"thinking": {"type": "disabled"}},
        "disabled, max": {"thinking": {"type": "disabled"}, "output_config": {"effort": "max"}},
        "max": {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
        "temperature and top_p": {"temperature": 0.7, "top_p": 0.9},
        "top_k": {"top_k": 5},
        "prefill": {"messages": [HI, ANSWER]},
        "system midway": {"messages": [HI, ANSWER, HI, {"role": "system", "content": "In Welsh."}]},
        "blank stop": {"stop_sequences": ["END", " "]},
        "tool without a type": {"tools": [{"name": "f", "input_schema": ROOTLESS}]},
        "tool with alternatives": {"tools": [{"name": "f", "input_schema": ALTERNATIVES}]},
        "limits": {"output_config": {"format": {"type": "json_schema", "schema": LIMITED}}},
        "strict tool": {"tools": [{"name": "f", "input_schema": SCHEMA, "strict": True}]},
        "unsigned thinking": {"messages": [HI, {"role": "assistant", "content": [UNSIGNED, {"type": "text", "text": "Yes?"}]}, HI]},
    },
}
PLAIN: dict[str, dict[str, Any]] = {
    "openai_chat": {"messages": [HI], "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]},
    "openai_responses": {"input": "Hello", "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}]},
    "anthropic_messages": {"messages": [HI], "max_tokens": 4000, "tools": [{"name": "f", "input_schema": SCHEMA}]},
}
FIELDS = {"forced": "tool_choice", "named": "tool_choice", "prefill": "1]", "temperature": "temperature", "none": "effort", "max": "effort"}
# What Anthropic answers callers of its own API is theirs to mend; only these are said otherwise.
MENDED = ("system midway", "tool without a type")
THEIRS = [(situation, "anthropic", "anthropic_messages") for situation in SITUATIONS["anthropic_messages"] if situation not in MENDED]


async def translate(host: str, model: str, caller: str, fields: dict[str, Any]) -> TranslatedRequest:
    provider, name, dialect = HOSTS[host]
    raw = json.dumps({"model": "m", **PLAIN[caller], **fields}).encode()
    request = CHAT_DIALECTS[caller].parse_request(raw)
    constraint = read_constraint(caller, request.body)
    source = make_source(request, raw, CHAT_DIALECTS[caller], MEDIA, drop_nothing, constraint=constraint)
    return await translate_request(source, endpoint_of(provider), Target(provider=host, model=name.format(model), dialect=dialect))


def refused_by(host: str, model: str, sent: dict[str, Any]) -> list[str]:
    """Returns what a host of this model answers with a 400, or ignores, in a request of any of the three APIs."""
    can_force, off, efforts, sampling, can_prefill, midway = MODELS[model]
    more = part_of(sent, "additionalModelRequestFields")
    thinking = part_of(sent, "thinking") or part_of(more, "thinking")
    choice: Any = sent.get("tool_choice") or part_of(sent, "toolConfig").get("toolChoice") or {}
    chosen = part_of({"choice": choice}, "choice")
    is_forced = choice == "required" or chosen.get("type") in ("any", "tool", "function") or "any" in chosen or "tool" in chosen
    config: dict[str, Any] = {**sent, **part_of(sent, "inferenceConfig"), **more}
    is_sampled = {key for key in ("temperature", "top_p", "topP", "top_k") if config.get(key) is not None}
    effort: Any = (part_of(sent, "output_config") or part_of(more, "output_config")).get("effort")
    relayed: Any = part_of(sent, "reasoning").get("effort")
    last: str = sent["messages"][-1]["role"]
    turns: list[str] = [each["role"] for each in sent["messages"]]
    later = "system" in turns[next(index for index, role in enumerate(turns) if role != "system") :]
    schemas = [tool_schema(tool) for tool in written_tools(sent)]
    faults: dict[str, bool] = {
        "blank stop": any(not stop.strip() for stop in written_stops(sent, config)),
        "tool's root": any(schema.get("type") != "object" or not schema.keys().isdisjoint(ROOT_COMBINATORS) for schema in schemas),
        "limits": any(f'"{limit}"' in json.dumps(answer_schema(sent)) for limit in ("minimum", "maxItems")),
        "unsigned": any(is_unsigned(block) for block in thinking_blocks(sent)),
        "forced": is_forced and (not can_force or thinking.get("type") == "enabled"),
        "sampling": sampling == "never" and bool(is_sampled),
        "both": sampling == "one" and len(is_sampled - {"top_k"}) == 2,
        "off": thinking.get("type") in ("disabled", "between_tools") and thinking["type"] != off,
        "budget": thinking.get("type") == "enabled" and efforts == "all",
        "adaptive": thinking.get("type") == "adaptive" and efforts in ("none", "to high"),
        "effort": effort is not None and effort not in EFFORTS[efforts],
        "effort while off": thinking.get("type") in ("disabled", "between_tools") and effort in ("xhigh", "max") and model not in LOOSE,
        "relayed": (relayed == "none" and off == "never") or (relayed == "xhigh" and efforts == "no xhigh"),
        "prefill": last == "assistant" and not can_prefill,
        "midway": later and (not midway or host == "foundry" or "inferenceConfig" in sent or "toolConfig" in sent),
    }
    return [fault for fault, is_there in faults.items() if is_there]


ROOT_COMBINATORS = ("anyOf", "oneOf", "allOf")


def written_tools(sent: dict[str, Any]) -> list[dict[str, Any]]:
    return sent.get("tools") or part_of(sent, "toolConfig").get("tools") or []


def tool_schema(tool: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a tool of Messages, Converse or Chat."""
    spec = part_of(tool, "toolSpec")
    return tool.get("input_schema") or part_of(spec, "inputSchema").get("json") or part_of(tool, "function").get("parameters") or {}


def written_stops(sent: dict[str, Any], config: dict[str, Any]) -> list[str]:
    stops: Any = sent.get("stop") or config.get("stop_sequences") or config.get("stopSequences") or []
    return [stops] if isinstance(stops, str) else stops


def answer_schema(sent: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer schemas that the host itself compiles.

    OpenRouter does not say what it makes of a schema, so its answers are checked.
    """
    return {"output_config": part_of(sent, "output_config").get("format"), "outputConfig": sent.get("outputConfig")}


def thinking_blocks(sent: dict[str, Any]) -> list[dict[str, Any]]:
    contents: list[Any] = [message.get("content") for message in sent["messages"]]
    blocks: list[dict[str, Any]] = [block for content in contents if isinstance(content, list) for block in cast("list[Any]", content)]
    return [block for block in blocks if block.get("type") == "thinking" or "reasoningContent" in block]


def is_unsigned(block: dict[str, Any]) -> bool:
    return not (block.get("signature") or part_of(part_of(block, "reasoningContent"), "reasoningText").get("signature"))


def part_of(fields: dict[str, Any], name: str) -> dict[str, Any]:
    value: Any = fields.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


# Models that take every effort while thinking is off.
LOOSE = {"claude-sonnet-5", "claude-opus-4-8", "claude-opus-4-7", "claude-sonnet-4-6"}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("caller", SITUATIONS)
async def test_no_request_holds_what_its_claude_model_refuses(host: str, caller: str):
    faults: list[str] = []
    for model in MODELS:
        plain = await translate(host, model, caller, {})
        assert plain.dropped == [] and plain.emulation is None and (plain.constraint_plan is None), (model, plain.dropped)
        for situation, fields in SITUATIONS[caller].items():
            cell = f"{model}, {situation}"
            try:
                translated = await translate(host, model, caller, fields)
            except Unsupported as refusal:
                named = refusal.param or ""
                if not any(field in named for field in (*fields, "messages[1]", "input[1]")):
                    faults.append(f"{cell}: refused by another name: {named}")
                continue
            if (situation, host, caller) in THEIRS:
                assert {key: json.loads(translated.raw).get(key) for key in fields} == fields, cell
                continue
            sent = json.loads(translated.raw)
            faults += [f"{cell}: {fault} in {translated.raw[:300]!r}" for fault in refused_by(host, model, sent)]
            faults += [f"{cell}: {lost} is lost without a report" for lost in silent_losses(fields, sent, translated)]
    assert not faults, "\n".join(faults)


def silent_losses(fields: dict[str, Any], sent: dict[str, Any], translated: TranslatedRequest) -> list[str]:
    """Returns what is missing from the sent request without a report: sampling, a forced call, or an instruction."""
    text = json.dumps(sent)
    told = " ".join([*translated.dropped, *(translated.emulation.fields if translated.emulation is not None else ())])
    lost: list[str] = []
    for field, names in (("temperature", ('"temperature"',)), ("top_p", ('"top_p"', '"topP"')), ("top_k", ('"top_k"',))):
        if field in fields and not any(name in text for name in names) and field not in told:
            lost.append(field)
    if "tool_choice" in fields and "tool_choice" not in told and not ('"tool_choice"' in text or '"toolChoice"' in text):
        lost.append("tool_choice")
    if "In Welsh." in json.dumps(fields) and "In Welsh." not in text:
        lost.append("the instruction")
    return lost
