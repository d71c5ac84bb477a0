"""Strict chat templates: what they refuse teaches a rule, and under it each of them takes the conversations of every caller's API.

The templates here check roles as those of Qwen3.5, Mistral and Gemma 2 do, whatever the conversion does: see _CHECKS.
"""

import functools
import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from providers.adapters.options import InvalidOption
from providers.adapters.provider import Provider
from providers.canonical.errors import UpstreamFailed, UpstreamRejected
from providers.canonical.raw_json import Body
from providers.canonical.template_errors import TEMPLATE_RULES, TemplateRule
from providers.canonical.upstream_errors import read_error
from providers.dialects.catalogue import CALLER_CHAT_DIALECTS, ENGINE_DIALECTS
from providers.drop_policy import DropPolicy
from providers.learned_rules.adapt import apply_rules
from providers.learned_rules.chat_turns import order_chat
from providers.learned_rules.match import read_lesson
from providers.learned_rules.rule import LearnedRule
from providers.learned_rules.turn_order import BEGINNING

CHAT, MESSAGES, RESPONSES, OLLAMA = "openai_chat", "anthropic_messages", "openai_responses", "ollama_chat"
CALLERS = (CHAT, MESSAGES, RESPONSES)
Turns = Sequence[tuple[str, str]]

# Role and text of each message; "call" is a response with a call, "result" its result.
SITUATIONS: dict[str, Turns] = {
    "several first": (("system", "S1"), ("developer", "S2"), ("system", "S3"), ("user", "U1")),
    "developer": (("developer", "S1"), ("user", "U1")),
    "midway": (("system", "S1"), ("user", "U1"), ("assistant", "A1"), ("system", "S2"), ("user", "U2"), ("developer", "S3")),
    "between responses": (("user", "U1"), ("assistant", "A1"), ("system", "S1"), ("assistant", "A2"), ("user", "U2")),
    "behind a result": (("system", "S1"), ("user", "U1"), ("call", "C1"), ("result", "R1"), ("system", "S2")),
    "before a result": (("system", "S1"), ("user", "U1"), ("call", "C1"), ("system", "S2"), ("result", "R1"), ("assistant", "A1")),
    "user behind a result": (("user", "U1"), ("call", "C1"), ("result", "R1"), ("user", "U2"), ("system", "S1")),
    "two users": (("system", "S1"), ("user", "U1"), ("user", "U2"), ("assistant", "A1"), ("assistant", "A2"), ("user", "U3")),
    "assistant first": (("system", "S1"), ("assistant", "A1"), ("user", "U1")),
}


def write_chat(turns: Turns) -> dict[str, Any]:
    messages: list[Any] = []
    for role, text in turns:
        match role:
            case "call":
                call = {"id": f"call_{text}", "type": "function", "function": {"name": text, "arguments": "{}"}}
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            case "result":
                messages.append({"role": "tool", "tool_call_id": f"call_C{text[1:]}", "content": text})
            case _:
                messages.append({"role": role, "content": text})
    return {"model": "m", "messages": messages}


def write_messages(turns: Turns) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": []}
    for index, (role, text) in enumerate(turns):
        block: Any = {"type": "text", "text": text}
        if index == 0 and role in ("system", "developer"):
            body["system"] = text
            continue
        if role == "call":
            block = {"type": "tool_use", "id": f"call_{text}", "name": text, "input": {}}
        elif role == "result":
            block = {"type": "tool_result", "tool_use_id": f"call_C{text[1:]}", "content": text}
        api_role = {"call": "assistant", "result": "user", "developer": "system"}.get(role, role)
        body["messages"].append({"role": api_role, "content": [block]})
    return body


def write_responses(turns: Turns) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "m", "input": []}
    for index, (role, text) in enumerate(turns):
        if index == 0 and role == "system":
            body["instructions"] = text
        elif role == "call":
            body["input"].append({"type": "function_call", "call_id": f"call_{text}", "name": text, "arguments": "{}"})
        elif role == "result":
            body["input"].append({"type": "function_call_output", "call_id": f"call_C{text[1:]}", "output": text})
        elif role == "assistant":
            body["input"].append({"type": "message", "role": role, "content": [{"type": "output_text", "text": text}]})
        else:
            body["input"].append({"role": role, "content": [{"type": "input_text", "text": text}]})
    return body


WRITERS: dict[str, Callable[[Turns], dict[str, Any]]] = {CHAT: write_chat, MESSAGES: write_messages, RESPONSES: write_responses}


def rendered(dialect: str, body: dict[str, Any]) -> list[tuple[str, str]]:
    """The messages that an engine gives to its template: roles, and texts."""
    found: list[tuple[str, str]] = []
    leading = body.get("system") if dialect == MESSAGES else body.get("instructions") if dialect == RESPONSES else None
    if leading:
        found.append(("system", texts(leading)))
    for message in cast("list[dict[str, Any]]", body["input" if dialect == RESPONSES else "messages"]):
        kind, content = message.get("type"), message.get("content")
        if kind == "function_call" or message.get("tool_calls"):
            names = [call["function"]["name"] for call in message.get("tool_calls", ())] or [str(message.get("name"))]
            found.append(("call", " ".join([texts(content), *names]).strip()))
        elif kind == "function_call_output" or message.get("role") == "tool":
            found.append(("result", texts(message.get("output") or content)))
        elif dialect == MESSAGES and isinstance(content, list):
            blocks = cast("list[dict[str, Any]]", content)
            for block in blocks:
                match block["type"]:
                    case "tool_use":
                        found.append(("call", block["name"]))
                    case "tool_result":
                        found.append(("result", texts(block["content"])))
                    case _ if found and block is not blocks[0] and found[-1][0] == message["role"]:
                        found[-1] = (found[-1][0], found[-1][1] + block["text"])
                    case _:
                        found.append((message["role"], block["text"]))
        else:
            found.append((message["role"], texts(content)))
    return found


def texts(content: Any) -> str:
    return content or "" if not isinstance(content, list) else "".join(part["text"] for part in cast("list[Any]", content))


def check_qwen(turns: Sequence[tuple[str, str]]) -> None:
    assert all(role in ("user", "assistant", "call", "result") for role, _ in turns[1:]), "System message must be at the beginning."
    assert not turns or turns[0][0] != "developer", "Unexpected message role."


def check_mistral(turns: Sequence[tuple[str, str]]) -> None:
    check_qwen(turns)
    spoken = [role for role, _ in turns[turns[0][0] == "system" :] if role in ("user", "assistant")]
    assert all((role == "user") == (at % 2 == 0) for at, role in enumerate(spoken)), "conversation roles must alternate"
    follows = [(one[0], other[0]) for one, other in itertools.pairwise(turns)]
    assert ("result", "user") not in follows, "Unexpected role 'user' after role 'tool'"


def check_gemma(turns: Sequence[tuple[str, str]]) -> None:
    assert turns[0][0] != "system", "System role not supported"
    check_mistral(turns)


_CHECKS: dict[TemplateRule, Callable[[Sequence[tuple[str, str]]], None]] = {
    "leading_instructions": check_qwen,
    "alternate_turns": check_mistral,
    "no_instructions": check_gemma,
}


def check(rule: TemplateRule, dialect: str, body: dict[str, Any], turns: Turns) -> None:
    """The template takes it, no text is lost, results follow their calls, and instructions that changed their role say what they are."""
    found = rendered(dialect, body)
    _CHECKS[rule](found)
    whole = "\n".join(text for _, text in found)
    positions = [whole.index(text) for _, text in turns]
    if not any(one[0] == "call" and other[0] == "system" for one, other in itertools.pairwise(turns)):
        assert positions == sorted(positions), whole
    roles = [role for role, _ in found]
    assert [roles[at + 1] for at, role in enumerate(roles) if role == "call"] == ["result"] * roles.count("call")
    for role, text in turns:
        if role in ("system", "developer"):
            assert any(text in said if role == "system" else f"<system>\n{text}\n</system>" in said for role, said in found), found
    # Messages has texts side by side as blocks, which the engine puts together.
    spoken = [said for role, said in found if role in ("system", "user") and dialect != MESSAGES]
    assert all("S1S2" not in said and "U1U2" not in said and "U1<" not in said for said in spoken), spoken


def refused(rule: TemplateRule, dialect: str, body: dict[str, Any]) -> bool:
    try:
        _CHECKS[rule](rendered(dialect, body))
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("rule", TEMPLATE_RULES)
@pytest.mark.parametrize("dialect", CALLERS)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_body_in_the_targets_dialect_becomes_one_that_the_template_takes(situation: str, dialect: str, rule: TemplateRule):
    turns = SITUATIONS[situation]
    original = WRITERS[dialect](turns)
    body, reported = order(rule, dialect, original)
    check(rule, dialect, body, turns)
    if refused(rule, dialect, original) and situation != "developer":
        assert reported and all(path in ("system", "instructions") or is_in(original, path) for path in reported)
    again, nothing = order(rule, dialect, body)
    assert (again, nothing) == (body, [])
    assert {key: value for key, value in body.items() if key not in ("messages", "input", "system", "instructions")} == {
        key: value for key, value in original.items() if key not in ("messages", "input", "system", "instructions")
    }


@pytest.mark.parametrize("rule", TEMPLATE_RULES)
@pytest.mark.parametrize("engine", [CHAT, MESSAGES, RESPONSES, OLLAMA])
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_translated_chat_becomes_one_that_the_template_takes(situation: str, caller: str, engine: str, rule: TemplateRule):
    turns = SITUATIONS[situation]
    original = WRITERS[caller](turns)
    caller_dialect, raw = CALLER_CHAT_DIALECTS[caller], Body.read(json.dumps(original).encode())
    policy = DropPolicy(lambda _: False, {}, "engine", functools.partial(caller_dialect.caller_path, raw))
    chat = order_chat(caller_dialect.read_request(raw), rule, policy)
    body = json.loads(ENGINE_DIALECTS[engine].write_request(chat, policy).write())
    check(rule, engine, body, turns)
    assert order(rule, engine, body) == (body, [])
    reported = [path for path in policy.dropped if path.endswith(".role")]
    assert all(is_in(original, path) for path in reported), reported
    if refused(rule, caller, original) and situation != "developer":
        assert reported or policy.dropped


def order(rule: TemplateRule, dialect: str, body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    adapted = Body.read(json.dumps(body).encode())
    policy = DropPolicy(lambda _: False, {}, "engine", body=adapted)
    apply_rules([LearnedRule(rule, dialect)], adapted, dialect, policy)
    return json.loads(adapted.write()), policy.dropped


def is_in(body: dict[str, Any], path: str) -> bool:
    """Returns whether a path such as messages[3].role is of an item of the body."""
    field, _, index = path.removesuffix("].role").partition("[")
    return index.isdigit() and int(index) < len(body[field])


def test_instructions_become_marked_text_where_they_stand():
    turns = SITUATIONS["midway"]
    body, reported = order("leading_instructions", CHAT, write_chat(turns))
    assert body["messages"] == [
        {"role": "system", "content": "S1"},
        {"role": "user", "content": "U1"},
        {"role": "assistant", "content": "A1"},
        {"role": "user", "content": "<system>\nS2\n</system>\n\nU2\n\n<system>\nS3\n</system>"},
    ]
    assert reported == ["messages[3].role", "messages[5].role"]


def test_instructions_at_the_beginning_are_joined_by_blank_lines():
    body, reported = order("leading_instructions", CHAT, write_chat(SITUATIONS["several first"]))
    assert body["messages"] == [{"role": "system", "content": "S1\n\nS2\n\nS3"}, {"role": "user", "content": "U1"}]
    assert reported == ["messages[1].role", "messages[2].role"]


def test_two_users_in_a_row_stay_two_where_the_template_takes_them():
    original = write_chat(SITUATIONS["two users"])
    assert order("leading_instructions", CHAT, original) == (original, [])
    body, reported = order("alternate_turns", CHAT, original)
    assert [message["content"] for message in body["messages"]] == ["S1", "U1\n\nU2", "A1\n\nA2", "U3"]
    assert reported == ["messages[2].role", "messages[4].role"]


def test_parts_of_merged_messages_are_kept_as_they_are():
    image: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    cached: Any = {"type": "text", "text": "U2", "cache_control": {"type": "ephemeral"}}
    messages = [{"role": "user", "content": [image]}, {"role": "user", "content": [cached]}, {"role": "user", "content": "U3"}]
    body, _ = order("alternate_turns", CHAT, {"messages": messages})
    assert body["messages"] == [{"role": "user", "content": [image, cached, {"type": "text", "text": "\n\nU3"}]}]
    ollama = [{"role": "user", "content": "U1", "images": ["A"]}, {"role": "user", "content": "U2", "images": ["B"]}]
    body, _ = order("alternate_turns", OLLAMA, {"messages": ollama})
    assert body["messages"] == [{"role": "user", "content": "U1\n\nU2", "images": ["A", "B"]}]


def test_response_and_its_call_are_one_message_where_turns_alternate():
    call = write_chat([("call", "C1")])["messages"][0]
    messages = [{"role": "user", "content": "U1"}, {"role": "assistant", "content": "A1", "reasoning_content": "T1"}, call]
    body, _ = order("alternate_turns", CHAT, {"messages": messages})
    assert body["messages"][1:] == [{**call, "content": "A1", "reasoning_content": "T1"}]


def test_text_input_of_responses_gets_the_instructions_where_there_is_no_system_role():
    body, reported = order("no_instructions", RESPONSES, {"instructions": "S1", "input": "U1"})
    assert rendered(RESPONSES, body) == [("user", "<system>\nS1\n</system>\n\nU1")] and "instructions" not in body
    assert reported == ["instructions"]
    plain = {"instructions": "S1", "input": "U1"}
    assert order("alternate_turns", RESPONSES, plain) == (plain, [])


def test_conversation_that_begins_with_a_response_gets_a_turn_of_the_users_before_it():
    body, reported = order("alternate_turns", CHAT, write_chat(SITUATIONS["assistant first"]))
    assert body["messages"][1] == {"role": "user", "content": BEGINNING} and reported == ["messages[1].role"]


@pytest.mark.parametrize("messages", [None, "Hi", [], ["Hi"], [1], {"role": "user"}, [{"content": "Hi"}], [{"role": 5, "content": 3}]])
@pytest.mark.parametrize("rule", TEMPLATE_RULES)
def test_what_is_no_list_of_messages_is_left_to_the_engine(messages: Any, rule: TemplateRule):
    for dialect, field in ((CHAT, "messages"), (MESSAGES, "messages"), (RESPONSES, "input")):
        if field == "input" and messages == "Hi":
            continue
        body, reported = order(rule, dialect, {field: messages})
        assert reported in ([], [f"{field}[0].role"]) and (reported or body == {field: messages})


_JINJA = (
    "\n------------\nWhile executing CallExpression at line 85, column 32 in source:\n...first %}↵            {{- raise_exception('System"
    " message must be at the beginnin...\n                                           ^\nError: Jinja Exception: "
)
_OF_QWEN = "System message must be at the beginning."
_OF_MISTRAL = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
_OF_GEMMA = "System role not supported"
_MIDWAY = write_chat(SITUATIONS["midway"])
ERRORS: dict[str, tuple[int, Any, TemplateRule]] = {
    "vLLM, SGLang": (400, {"error": {"message": _OF_QWEN, "type": "BadRequestError"}}, "leading_instructions"),
    "older vLLM": (400, {"object": "error", "message": _OF_MISTRAL, "code": 400}, "alternate_turns"),
    "llama.cpp, 500": (500, {"error": {"code": 500, "message": _JINJA + _OF_QWEN, "type": "server_error"}}, "leading_instructions"),
    "llama.cpp, 400": (
        400,
        {
            "error": {
                "code": 400,
                "message": "Unable to generate parser for this template. Automatic parser generation failed: " + _JINJA + _OF_QWEN,
            }
        },
        "leading_instructions",
    ),
    "llama.cpp, Devstral": (
        500,
        {
            "error": {
                "message": _JINJA
                + "After the optional system message, conversation roles must alternate user and assistant roles except for"
                " tool calls and results."
            }
        },
        "alternate_turns",
    ),
    "Ollama": (
        500,
        {"error": "500 Internal Server Error: " + json.dumps({"error": {"code": 500, "message": _JINJA + _OF_QWEN}})},
        "leading_instructions",
    ),
    "llama-cpp-python": (500, {"error": {"message": _OF_GEMMA, "type": "internal_server_error"}}, "no_instructions"),
    "LM Studio": (
        500,
        {"error": f'Error rendering prompt with jinja template: "{_OF_QWEN}". This is usually an issue with the model\'s prompt template.'},
        "leading_instructions",
    ),
    "TGI": (
        422,
        {"error": "Template error: invalid operation: Conversation roles must alternate user/assistant/user/assistant/... (in <string>:1)"},
        "alternate_turns",
    ),
    "Mistral": (400, {"object": "error", "message": "Unexpected role 'system' after role 'assistant'"}, "alternate_turns"),
    "OpenRouter": (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": json.dumps({"message": "Unexpected role 'user' after role 'tool'"})},
            }
        },
        "alternate_turns",
    ),
    "Mistral 7B": (400, {"message": "Only user and assistant roles are supported!"}, "no_instructions"),
    "role developer": (400, {"error": {"message": "Unexpected message role."}}, "leading_instructions"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_refusal_of_a_template_teaches_its_rule(name: str):
    status, error, rule = ERRORS[name]
    refusal = read_error(status, {}, json.dumps(error).encode())
    assert isinstance(refusal, UpstreamRejected) and not refusal.retry_elsewhere
    lesson = read_lesson(refusal, CHAT, json.dumps(_MIDWAY).encode())
    assert lesson is not None and lesson.is_shared and lesson.rules == (LearnedRule(rule, CHAT),)
    # A request that the rule does not change was refused for something else.
    adapted, _ = order(rule, CHAT, _MIDWAY)
    assert read_lesson(refusal, CHAT, json.dumps(adapted).encode()) is None
    assert read_lesson(refusal, CHAT, json.dumps({**_MIDWAY, "chat_template": "{{ raise_exception('') }}"}).encode()) is None


@pytest.mark.parametrize(
    "message", [f"Unknown tool: {_OF_QWEN}", f"{_OF_QWEN}\nmessages: too many", "CUDA error", "", _OF_QWEN + " " * 1000 + _OF_QWEN]
)
def test_other_failures_stay_failures(message: str):
    assert isinstance(read_error(500, {}, json.dumps({"error": {"message": message}}).encode()), UpstreamFailed)
    refusal = read_error(400, {}, json.dumps({"error": {"message": message}}).encode())
    assert read_lesson(refusal, CHAT, json.dumps(_MIDWAY).encode()) is None


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, None),
        ({"instructions": "anywhere", "turns": "freely"}, None),
        ({"instructions": "first"}, "leading_instructions"),
        ({"instructions": "first", "turns": "alternate"}, "alternate_turns"),
        ({"turns": "alternate"}, "alternate_turns"),
        ({"instructions": "nowhere"}, "no_instructions"),
    ],
)
def test_options_say_what_templates_take(options: dict[str, Any], rule: str | None):
    provider = _Engine("engine", options)
    assert provider.template_rule == rule and provider.at_version((1,)).template_rule == rule


@pytest.mark.parametrize("options", [{"instructions": "last"}, {"turns": True}, {"instructions": ["first"]}])
def test_other_values_of_the_options_are_refused(options: dict[str, Any]):
    with pytest.raises(InvalidOption, match=f"Option {next(iter(options))} may be"):
        _Engine("engine", options)


class _Engine(Provider):
    name = "engine"
