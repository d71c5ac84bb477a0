"""Learned rules: which errors teach which rule, what a request becomes under each, and what no error may teach."""

import json
from typing import Any

import pytest

from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.canonical.upstream_errors import read_error
from providers.drop_policy import DropPolicy
from providers.learned_rules.adapt import apply_rules, filter_betas
from providers.learned_rules.bound_thinking import conversation_of, drop_unbound_blocks, read_bound_block
from providers.learned_rules.match import read_lesson
from providers.learned_rules.rule import LearnedRule, Lesson

CHAT, RESPONSES, MESSAGES = "openai_chat", "openai_responses", "anthropic_messages"
HI: Any = [{"role": "user", "content": "Hi"}]
PREFILLED: Any = [*HI, {"role": "assistant", "content": "{"}]
FUNCTION: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
TOOL: Any = {"name": "f", "input_schema": {"type": "object"}}


def teach(message: str, dialect: str, body: dict[str, Any], *, status: int = 400, betas: bytes = b"", **error: Any) -> Lesson | None:
    raw = json.dumps({"error": {"message": message, **error}}).encode()
    return read_lesson(read_error(status, {}, raw), dialect, json.dumps({"model": "m", **body}).encode(), betas)


def adapt(lesson: Lesson | None, dialect: str, body: dict[str, Any], *may_drop: str) -> tuple[dict[str, Any], list[str]]:
    """The body without its model, and the reported fields."""
    assert lesson is not None
    adapted = Body.read(json.dumps(body).encode())
    policy = DropPolicy(lambda field: field in may_drop, {}, "host", body=adapted)
    apply_rules(lesson.rules, adapted, dialect, policy)
    return json.loads(adapted.write()), policy.dropped


# Message, its `param`, the dialect, the body that was refused; what becomes of the body, and what is reported. Everything else in a body
# stays as it is.
CASES: dict[str, tuple[Any, ...]] = {
    "temperature of Claude": (
        *("`temperature` is deprecated for this model.", None, MESSAGES, {"temperature": 0.2}),
        *({}, ["temperature"]),
    ),
    "temperature of GPT": (
        "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
        *("temperature", CHAT, {"temperature": 0.2, "n": 2}, {"n": 2}, ["temperature"]),
    ),
    "default temperature is not reported": (
        "Unsupported parameter: 'temperature' is not supported with this model.",
        *("temperature", RESPONSES, {"temperature": 1}, {}, []),
    ),
    "temperature of Kimi": (
        *("invalid temperature: only 1 is allowed for this model", None, CHAT, {"temperature": 0.1}),
        *({}, ["temperature"]),
    ),
    "one of two": (
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        *(None, MESSAGES, {"temperature": 0.3, "top_p": 0.9}, {"temperature": 0.3}, ["top_p"]),
    ),
    "behind OpenRouter": (
        'Provider returned error: {"type":"error","error":{"message":"`top_p` is deprecated for this model."}}',
        *(None, MESSAGES, {"top_p": 0.9}, {}, ["top_p"]),
    ),
    "name of the limit": (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        *("max_tokens", CHAT, {"max_tokens": 5}, {"max_completion_tokens": 5}, []),
    ),
    "effort of Chat": (
        "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model."
        " Supported values are: 'low', 'medium', and 'high'.",
        *("reasoning_effort", CHAT, {"reasoning_effort": "minimal"}, {"reasoning_effort": "low"}, ["reasoning_effort"]),
    ),
    "effort of Responses": (
        "Unsupported value: 'xhigh' is not supported with the 'gpt-5.9' model. Supported values are: 'low', 'medium', and 'high'.",
        *("reasoning.effort", RESPONSES, {"reasoning": {"effort": "xhigh", "summary": "auto"}}),
        *({"reasoning": {"effort": "high", "summary": "auto"}}, ["reasoning.effort"]),
    ),
    "effort of Claude": (
        "This model does not support effort level 'max'. Supported levels: high, low, medium.",
        *(None, MESSAGES, {"output_config": {"effort": "max"}}, {"output_config": {"effort": "high"}}, ["output_config.effort"]),
    ),
    "verbosity": (
        "Unsupported value: 'low' is not supported with the 'gpt-4.1' model. Supported values are: 'medium'.",
        *("verbosity", CHAT, {"verbosity": "low"}, {}, ["verbosity"]),
    ),
    "thinking that cannot be disabled": (
        '"thinking.type.disabled" is not supported for this model.',
        *(None, MESSAGES, {"thinking": {"type": "disabled"}}, {"output_config": {"effort": "low"}}, ["thinking"]),
    ),
    "thinking between tools": (
        '"thinking.type.disabled" is not supported for this model. Use "thinking.type.between_tools" instead.',
        *(None, MESSAGES, {"thinking": {"type": "disabled"}}, {"thinking": {"type": "between_tools"}}, ["thinking"]),
    ),
    "thinking with a budget": (
        '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" instead.',
        *(None, MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 4000, "display": "summarized"}}),
        *({"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "medium"}}, ["thinking.budget_tokens"]),
    ),
    "adaptive thinking": (
        "adaptive thinking is not supported on this model",
        *(None, MESSAGES, {"thinking": {"type": "adaptive"}, "max_tokens": 5000}),
        *({"thinking": {"type": "enabled", "budget_tokens": 4999}, "max_tokens": 5000}, []),
    ),
    "field of a tool": (
        "tools.0.custom.eager_input_streaming: Extra inputs are not permitted",
        *(None, MESSAGES, {"tools": [{**TOOL, "eager_input_streaming": True}, TOOL]}),
        *({"tools": [TOOL, TOOL]}, ["tools[0].eager_input_streaming"]),
    ),
    "field of a body": (
        "context_management: Extra inputs are not permitted",
        *(None, MESSAGES, {"context_management": {"edits": [1]}}, {}, ["context_management"]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_error_teaches_a_rule_under_which_the_same_body_is_accepted(name: str):
    message, param, dialect, body, expected, reported = CASES[name]
    lesson = teach(message, dialect, body, param=param)
    assert lesson is not None and lesson.is_shared
    assert adapt(lesson, dialect, body) == (expected, reported)
    # Once adapted the body breaks the rule no longer: the same error again teaches nothing.
    assert teach(message, dialect, expected, param=param) is None
    # In another dialect the rule says nothing.
    assert adapt(lesson, "openai_completions", body) == (body, [])


@pytest.mark.parametrize(
    ("message", "dialect", "body", "field", "adapted"),
    [
        (
            *("Thinking may not be enabled when tool_choice forces tool use.", MESSAGES),
            *({"tools": [TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}, "tool_choice"),
            {"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        ),
        (
            *("tool_choice: forced tool use is not supported on this model", MESSAGES),
            *({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f"}}, "tool_choice", {"tools": [TOOL]}),
        ),
        (
            *("Thinking mode does not support this tool_choice", CHAT),
            *({"tools": [FUNCTION], "tool_choice": "required"}, "tool_choice", {"tools": [FUNCTION]}),
        ),
        (
            *("tool_choice 'specified' is incompatible with thinking enabled", CHAT),
            *({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice", {}),
        ),
        (
            "<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being set to required or object in"
            " thinking mode",
            *(CHAT, {"tool_choice": "required"}, "tool_choice", {}),
        ),
        (
            "This model does not support assistant message prefill. The conversation must end with a user message.",
            *(MESSAGES, {"messages": PREFILLED}, "messages", {"messages": HI}),
        ),
        (
            *("Unsupported parameter: 'logit_bias' is not supported with this model.", CHAT),
            *({"logit_bias": {"1": 2}}, "logit_bias", {}),
        ),
        ("`top_k` is deprecated for this model.", MESSAGES, {"top_k": 5}, "top_k", {}),
    ],
)
def test_what_changes_the_answer_goes_only_where_that_is_allowed(
    message: str, dialect: str, body: dict[str, Any], field: str, adapted: dict[str, Any]
):
    lesson = teach(message, dialect, body)
    with pytest.raises(Unsupported) as refused:
        adapt(lesson, dialect, body)
    assert (refused.value.param or "").startswith(field)
    changed, reported = adapt(lesson, dialect, body, field)
    assert changed == adapted and [each.startswith(field) for each in reported] == [True]


def test_forced_tool_stays_forced_while_thinking_is_off():
    lesson = teach("Thinking mode does not support this tool_choice", CHAT, {"tool_choice": "required"})
    for off in ({"thinking": {"type": "disabled"}}, {"enable_thinking": False}, {"reasoning_effort": "none"}):
        body = {"tool_choice": "required", **off}
        assert adapt(lesson, CHAT, body) == (body, [])


def test_system_messages_become_instructions_or_marked_user_text():
    system = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
    body = {"system": "First.", "messages": [system, *HI, {"role": "system", "content": "Now German."}]}
    adapted, reported = adapt(teach("role 'system' is not supported on this model", MESSAGES, body), MESSAGES, body)
    assert [block["text"] for block in adapted["system"]] == ["First.", "Be brief."] and reported == ["messages[2].role"]
    last = adapted["messages"][-1]
    assert last["role"] == "user" and "Now German." in last["content"][0]["text"] and last["content"][0]["text"].startswith("<system>")


def test_instruction_that_the_user_says_keeps_its_cache_mark_and_its_effort_is_reported():
    mark = {"type": "ephemeral", "ttl": "1h"}
    text = {"type": "text", "text": "Now German.", "cache_control": mark}
    body = {"messages": [*HI, {"role": "system", "content": [text], "output_config": {"effort": "low"}}]}
    adapted, reported = adapt(teach("role 'system' is not supported on this model", MESSAGES, body), MESSAGES, body)
    assert adapted["messages"][-1]["content"][0]["cache_control"] == mark
    assert reported == ["messages[1].role", "messages[1].output_config"]


def test_system_message_does_not_part_a_result_from_its_call():
    call: dict[str, Any] = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
    result: dict[str, Any] = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}
    body = {"messages": [*HI, call, {"role": "system", "content": "Now German."}, result]}
    adapted, _ = adapt(teach("role 'system' is not supported on this model", MESSAGES, body), MESSAGES, body)
    assert adapted["messages"][:3] == [*HI, call, result] and "Now German." in adapted["messages"][3]["content"][0]["text"]


FUNCTION_TOOLS = (
    "Function tools with reasoning_effort are not supported for gpt-6.3 in /v1/chat/completions."
    " To use function tools, use /v1/responses or set reasoning_effort to 'none'."
)


@pytest.mark.parametrize(
    ("body", "is_learned"),
    [
        ({"tools": [FUNCTION]}, True),
        ({"tools": [FUNCTION], "reasoning_effort": "high"}, True),
        ({"tools": [FUNCTION], "reasoning_effort": "none"}, False),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, False),
        ({}, False),
    ],
)
def test_function_tools_at_chat_teach_that_they_go_elsewhere(body: dict[str, Any], is_learned: bool):
    lesson = teach(FUNCTION_TOOLS, CHAT, body, param="reasoning_effort")
    assert lesson == (Lesson((LearnedRule("no_tools", CHAT),)) if is_learned else None)


@pytest.mark.parametrize(
    ("message", "is_learned"),
    [
        ("structured_outputs not supported in your workspace.", True),
        ("tool_search_server, structured_outputs, tool_search not supported in your workspace", True),
        ("features are not available for Azure AI Foundry workspaces: tool_search and structured_outputs", True),
        ("tool_search not supported in your workspace", False),
        ("`structured_outputs not supported in your workspace`", False),
    ],
)
@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (MESSAGES, {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}),
        (MESSAGES, {"tools": [{**TOOL, "strict": True}]}),
        (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}}),
    ],
)
def test_refused_schemas_teach_that_there_are_none(message: str, is_learned: bool, dialect: str, body: dict[str, Any]):
    assert teach(message, dialect, body) == (Lesson((LearnedRule("no_schemas", dialect),)) if is_learned else None)
    assert teach(message, dialect, {"tools": []}) is None


def test_beta_that_the_host_names_is_left_out_for_all():
    message = "Unexpected value(s) `new-2026-11-01` for the `anthropic-beta` header. Please consult our documentation."
    lesson = teach(message, MESSAGES, {}, betas=b"known-2025-01-01, new-2026-11-01")
    assert lesson is not None and lesson == Lesson((LearnedRule("refused_beta", MESSAGES, "new-2026-11-01"),))
    body = Body()
    assert filter_betas(lesson.rules, body, MESSAGES, b"known-2025-01-01, new-2026-11-01") == (b"known-2025-01-01", True)
    assert filter_betas(lesson.rules, body, MESSAGES, b"known-2025-01-01") == (b"known-2025-01-01", False)
    assert teach(message, MESSAGES, {}, betas=b"known-2025-01-01") is None


def test_betas_among_which_the_host_names_none_go_from_this_request_alone():
    lesson = teach("invalid beta flag", MESSAGES, {"anthropic_beta": ["a-1", "b-2"]})
    assert lesson is not None and not lesson.is_shared and [rule.field for rule in lesson.rules] == ["a-1", "b-2"]
    body = Body({"anthropic_beta": ["a-1", "b-2"]})
    assert filter_betas(lesson.rules, body, MESSAGES, b"") == (b"", True) and "anthropic_beta" not in body
    alone = teach("invalid beta flag", MESSAGES, {}, betas=b"a-1")
    assert alone is not None and alone.is_shared


@pytest.mark.parametrize(
    ("message", "body"),
    [
        # The field was not in the request: it cannot have been refused for it.
        ("`temperature` is deprecated for this model.", {}),
        ("tools.0.strict: Extra inputs are not permitted", {"tools": [TOOL]}),
        # Text of a caller around, or in place of, a name.
        ('Unknown tool "`temperature` is deprecated for this model."', {"temperature": 0.5}),
        ("`temperature` is deprecated for this model.\nmessages.0: invalid", {"temperature": 0.5}),
        ("`temperature` is deprecated for this model. `top_p` is deprecated for this model.", {"temperature": 0.5, "top_p": 0.5}),
        # What no request can do without.
        ("model: Extra inputs are not permitted", {}),
        ("messages.0.content: Extra inputs are not permitted", {"messages": HI}),
        ("tools.0.custom.name: Extra inputs are not permitted", {"tools": [TOOL]}),
        ("max_tokens: Extra inputs are not permitted", {"max_tokens": 5}),
        # A key that reads like the path of another field.
        ("tools.0.strict: Extra inputs are not permitted", {"tools.0.strict": 1, "tools": [{**TOOL, "strict": True}]}),
        ("metadata.tools: Extra inputs are not permitted", {"metadata": {"a.b": 1, "tools": 2}}),
        # An engine's message that a template of the caller's own may have written.
        ("`temperature` is deprecated for this model.", {"temperature": 0.5, "chat_template": "{{ raise_exception('...') }}"}),
        ("`temperature` is deprecated for this model." + " " * 1000, {"temperature": 0.5}),
    ],
)
def test_error_teaches_nothing_that_a_caller_could_have_made_it_say(message: str, body: dict[str, Any]):
    assert teach(message, MESSAGES, body) is None


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_only_a_refusal_of_the_request_teaches(status: int):
    assert teach("`temperature` is deprecated for this model.", MESSAGES, {"temperature": 0.5}, status=status) is None


def test_field_that_one_caller_made_up_is_no_matter_of_others():
    lesson = teach("my_field: Extra inputs are not permitted", MESSAGES, {"my_field": 1})
    assert lesson is not None and not lesson.is_shared
    with pytest.raises(Unsupported, match="my_field"):
        adapt(lesson, MESSAGES, {"my_field": 1})


BOUND = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation:"
    " something before it has changed."
)
TURN: Any = [*HI, {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "sig-1"}]}, *HI]


def test_bound_block_is_dropped_by_the_host_for_the_rest_of_its_conversation():
    assert read_bound_block(read_error(400, {}, json.dumps({"error": {"message": BOUND}}).encode())) == "messages[1].content[0]"
    assert read_bound_block(read_error(400, {}, b'{"error": {"message": "messages.1: Invalid `signature` in `thinking` block"}}')) is None
    first = conversation_of(Body.read(json.dumps({"messages": TURN}).encode()), MESSAGES, "claude", "m")
    later = conversation_of(Body({"messages": [*TURN, {"role": "assistant", "content": "x"}, *HI]}), MESSAGES, "claude", "m")
    assert first is not None and first == later
    assert conversation_of(Body({"messages": TURN}), MESSAGES, "claude", "other") != first
    assert conversation_of(Body({"messages": HI}), MESSAGES, "claude", "m") is None


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        (None, {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}),
        (
            {"type": "adaptive", "display": "omitted"},
            {"type": "adaptive", "display": "omitted", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
        ),
        ({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}, None),
        ({"type": "enabled", "budget_tokens": 2000}, None),
    ],
)
def test_blocks_are_dropped_only_where_thinking_has_the_setting(thinking: Any, expected: Any):
    body = Body({"messages": TURN} if thinking is None else {"messages": TURN, "thinking": thinking})
    policy = DropPolicy(lambda _: False, {}, "host", body=body)
    rule = LearnedRule("unbound_thinking", MESSAGES, "messages[1].content[0]")
    assert drop_unbound_blocks(body, rule, policy) is (expected is not None)
    assert body.get("thinking") == (expected or thinking) and policy.dropped == ([rule.field] if expected else [])
    assert body["messages"] == TURN
