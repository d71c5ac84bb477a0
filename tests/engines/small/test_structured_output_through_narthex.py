"""Every constraint that the small engines' adapters support is obeyed by random models in each API, and its mode is reported."""

import json
import re
from collections.abc import Callable
from typing import Any

import anthropic
import jsonschema
import openai
import pytest

from tests.engines.constraint_samples import BOOKING, CHOICE, EBNF, LARK, REGEX, ROOM_REGEX
from tests.engines.small.constraint_callers import CALLERS, HI, Caller
from tests.engines.vllm.running_vllm import Engine

pytestmark = pytest.mark.engines

# Only keywords that llama-cpp-python's converter obeys: no bounds. Sent unchanged, the pattern would end the engine's process.
TICKET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["bug", "wish"]},
        "code": {"type": "string", "pattern": r"^\d{3}-\w{2}$"},
        "who": {"type": "string", "maxLength": 12},
        "open": {"type": "boolean"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
    },
    "required": ["kind", "code", "who", "open", "tags"],
    "additionalProperties": False,
}
# No converter supports multiples, and a regex cannot express them; but nearly every output obeys.
VALIDATED_SCHEMA: dict[str, Any] = {"type": "integer", "multipleOf": 1}
# Two anchored halves, which neither converter supports.
ALTERNATION_SCHEMA: dict[str, Any] = {"type": "string", "pattern": "^a$|^b{2}$"}
# Characters that JSON escapes, and a quote.
ESCAPES_SCHEMA: dict[str, Any] = {"type": "string", "pattern": r'^\n?"[\t\\]x?$'}
OBJECT_SCHEMA: dict[str, Any] = {"type": "object"}


def json_schema_format(json_schema: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "output", "schema": json_schema}}}


def assert_valid(json_schema: dict[str, Any]) -> Callable[[str], None]:
    return lambda text: jsonschema.validate(json.loads(text), json_schema)


def assert_matching(pattern: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        assert re.fullmatch(pattern, text)

    return check


def assert_choice(text: str) -> None:
    assert text in CHOICE


ConstraintCase = tuple[str, dict[str, Any], Callable[[str], None], str]
CONSTRAINT_CASES: list[ConstraintCase] = [
    ("llamacpp", json_schema_format(BOOKING), assert_valid(BOOKING), "enforced"),
    ("llamacpp", json_schema_format(TICKET), assert_valid(TICKET), "enforced"),
    ("llamacpp", json_schema_format(ALTERNATION_SCHEMA), assert_valid(ALTERNATION_SCHEMA), "enforced"),
    ("llamacpp", json_schema_format(ESCAPES_SCHEMA), assert_valid(ESCAPES_SCHEMA), "enforced"),
    ("llamacpp", json_schema_format(VALIDATED_SCHEMA), assert_valid(VALIDATED_SCHEMA), "validated"),
    ("llamacpp", {"response_format": {"type": "json_object"}}, assert_valid(OBJECT_SCHEMA), "enforced"),
    ("llamacpp", {"guided_json": BOOKING}, assert_valid(BOOKING), "enforced"),
    ("llamacpp", {"guided_regex": REGEX}, assert_matching(REGEX), "converted"),
    ("llamacpp", {"guided_choice": CHOICE}, assert_choice, "converted"),
    ("llamacpp", {"guided_grammar": EBNF}, assert_matching(ROOM_REGEX), "enforced"),
    ("llamacpp", {"grammar": EBNF}, assert_matching(ROOM_REGEX), "enforced"),
    ("llamacpp_python", json_schema_format(TICKET), assert_valid(TICKET), "enforced"),
    ("llamacpp_python", json_schema_format(ESCAPES_SCHEMA), assert_valid(ESCAPES_SCHEMA), "enforced"),
    ("llamacpp_python", json_schema_format(ALTERNATION_SCHEMA), assert_valid(ALTERNATION_SCHEMA), "enforced"),
    ("llamacpp_python", json_schema_format(VALIDATED_SCHEMA), assert_valid(VALIDATED_SCHEMA), "validated"),
    ("llamacpp_python", {"guided_json": TICKET}, assert_valid(TICKET), "enforced"),
    ("llamacpp_python", {"guided_regex": REGEX}, assert_matching(REGEX), "converted"),
    ("llamacpp_python", {"guided_choice": CHOICE}, assert_choice, "converted"),
    ("llamacpp_python", {"guided_grammar": EBNF}, assert_matching(ROOM_REGEX), "enforced"),
]


@pytest.mark.parametrize("send", CALLERS.values(), ids=CALLERS)
@pytest.mark.parametrize(
    ("engine", "fields", "check", "expected_mode"), CONSTRAINT_CASES, ids=[f"{case[0]}-{at}" for at, case in enumerate(CONSTRAINT_CASES)]
)
def test_supported_constraint_is_obeyed_and_its_mode_reported(
    request: pytest.FixtureRequest,
    caller: openai.OpenAI,
    anthropic_client: anthropic.Anthropic,
    send: Caller,
    engine: str,
    fields: dict[str, Any],
    check: Callable[[str], None],
    expected_mode: str,
):
    request.getfixturevalue(engine)
    text, mode = send(caller, anthropic_client, engine, fields)
    check(text)
    assert mode == expected_mode


@pytest.mark.parametrize("caller_name", ["chat", "stream", "responses"])
def test_json_object_on_llamacpp_python_is_validated_by_the_gateway(
    llamacpp_python: Engine, caller: openai.OpenAI, anthropic_client: anthropic.Anthropic, caller_name: str
):
    """Messages is left out because it has no field for a JSON object."""
    text, mode = CALLERS[caller_name](caller, anthropic_client, "llamacpp_python", {"response_format": {"type": "json_object"}})
    assert_valid(OBJECT_SCHEMA)(text)
    assert mode == "validated"


STRUCTURAL_TAG = {"type": "structural_tag", "format": {"type": "const_string", "value": "a"}}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("llamacpp", {"guided_grammar": LARK}),
    ("llamacpp", {"response_format": STRUCTURAL_TAG}),
    ("llamacpp_python", {"guided_grammar": LARK}),
    ("llamacpp_python", {"response_format": STRUCTURAL_TAG}),
    ("transformers", {"response_format": STRUCTURAL_TAG}),
    ("transformers", {"guided_grammar": EBNF}),
]


_TOOLS = {"tools": [{"type": "function", "function": {"name": "book", "parameters": BOOKING}}]}
DEMANDED: list[tuple[str, dict[str, Any]]] = [
    ("transformers", json_schema_format(BOOKING)),
    ("transformers", {"response_format": {"type": "json_object"}}),
    ("transformers", {"guided_regex": REGEX}),
    ("transformers", {"guided_choice": CHOICE}),
    ("llamacpp", {**json_schema_format(BOOKING), **_TOOLS}),
    ("llamacpp_python", {**json_schema_format(BOOKING), **_TOOLS}),
]


@pytest.mark.parametrize(("engine", "fields"), DEMANDED, ids=[f"{each[0]}-{at}" for at, each in enumerate(DEMANDED)])
def test_format_that_only_the_prompt_can_demand_is_validated(
    request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str, fields: dict[str, Any]
):
    """Random weights obey no prompt: what they write is an error unless it happens to be the beginning of a valid response."""
    request.getfixturevalue(engine)
    completions = caller.chat.completions.with_raw_response
    try:
        answer = completions.create(model=engine, messages=HI, max_tokens=4, extra_body=fields)
    except openai.APIStatusError as violated:
        body: Any = violated.body
        assert (violated.status_code, body["code"], body["param"]) == (502, "constraint_violation", next(iter(fields)))
    else:
        assert answer.headers["x-narthex-guided"] == "validated"


@pytest.mark.parametrize(("engine", "fields"), REFUSED, ids=[f"{each[0]}-{at}" for at, each in enumerate(REFUSED)])
def test_unsupported_constraint_is_a_422_without_calling_the_engine(
    request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str, fields: dict[str, Any]
):
    request.getfixturevalue(engine)
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        caller.chat.completions.create(model=engine, messages=HI, max_tokens=4, extra_body=fields)
    [field] = fields
    assert refused.value.param == field
    assert "x-narthex-served" not in refused.value.response.headers


@pytest.mark.parametrize(("engine", "fields"), REFUSED[:3], ids=[f"{each[0]}-{at}" for at, each in enumerate(REFUSED[:3])])
def test_unsupported_constraint_can_be_dropped_on_request(
    request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str, fields: dict[str, Any]
):
    request.getfixturevalue(engine)
    [field] = fields
    completions = caller.chat.completions.with_raw_response
    raw = completions.create(model=engine, messages=HI, max_tokens=4, extra_body=fields, extra_headers={"x-narthex-drop": field})
    assert raw.headers["x-narthex-dropped"] == field
    assert "x-narthex-guided" not in raw.headers


@pytest.mark.parametrize("engine", ["llamacpp", "llamacpp_python"])
def test_invalid_grammar_is_a_400_and_the_engine_survives(request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str):
    """The grammar itself would end llama-cpp-python's process."""
    request.getfixturevalue(engine)
    for field in ("guided_grammar", "grammar"):
        with pytest.raises(openai.BadRequestError):
            caller.chat.completions.create(model=engine, messages=HI, max_tokens=4, extra_body={field: "root ::= ("})
    assert caller.chat.completions.create(model=engine, messages=HI, max_tokens=4).choices
