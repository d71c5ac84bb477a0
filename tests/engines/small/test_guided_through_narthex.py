"""Every kind of constraint that the small engines' adapters claim: obeyed though the models are random, whoever asks, and told how."""

import json
import re
from collections.abc import Callable
from typing import Any

import anthropic
import jsonschema
import openai
import pytest

from tests.engines.running_vllm import Engine
from tests.engines.shapes import BOOKING, CHOICE, EBNF, LARK, REGEX, ROOM
from tests.engines.small.said import CALLERS, HI, Caller

pytestmark = pytest.mark.engines

# What stands in it llama-cpp-python's converter obeys: no bounds. Its pattern would end the engine's process, if it were said as it is.
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
# No engine's converter does multiples, and no regex says them; but nearly every answer obeys.
LOOKED_AT: dict[str, Any] = {"type": "integer", "multipleOf": 1}
# Two anchored halves, of which neither converter knows what to make.
AS_A_REGEX: dict[str, Any] = {"type": "string", "pattern": "^a$|^b{2}$"}
# What JSON says by an escape, and a quote.
ESCAPED: dict[str, Any] = {"type": "string", "pattern": r'^\n?"[\t\\]x?$'}
OBJECT: dict[str, Any] = {"type": "object"}


def schema(said: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "said", "schema": said}}}


def valid(said: dict[str, Any]) -> Callable[[str], None]:
    return lambda text: jsonschema.validate(json.loads(text), said)


def matches(pattern: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        assert re.fullmatch(pattern, text)

    return check


def one_of_them(text: str) -> None:
    assert text in CHOICE


Claim = tuple[str, dict[str, Any], Callable[[str], None], str]
CLAIMS: list[Claim] = [
    ("llamacpp", schema(BOOKING), valid(BOOKING), "enforced"),
    ("llamacpp", schema(TICKET), valid(TICKET), "enforced"),
    ("llamacpp", schema(AS_A_REGEX), valid(AS_A_REGEX), "enforced"),
    ("llamacpp", schema(ESCAPED), valid(ESCAPED), "enforced"),
    ("llamacpp", schema(LOOKED_AT), valid(LOOKED_AT), "validated"),
    ("llamacpp", {"response_format": {"type": "json_object"}}, valid(OBJECT), "enforced"),
    ("llamacpp", {"guided_json": BOOKING}, valid(BOOKING), "enforced"),
    ("llamacpp", {"guided_regex": REGEX}, matches(REGEX), "converted"),
    ("llamacpp", {"guided_choice": CHOICE}, one_of_them, "converted"),
    ("llamacpp", {"guided_grammar": EBNF}, matches(ROOM), "enforced"),
    ("llamacpp", {"grammar": EBNF}, matches(ROOM), "enforced"),
    ("llamacpp_python", schema(TICKET), valid(TICKET), "enforced"),
    ("llamacpp_python", schema(ESCAPED), valid(ESCAPED), "enforced"),
    ("llamacpp_python", schema(AS_A_REGEX), valid(AS_A_REGEX), "enforced"),
    ("llamacpp_python", schema(LOOKED_AT), valid(LOOKED_AT), "validated"),
    ("llamacpp_python", {"guided_json": TICKET}, valid(TICKET), "enforced"),
    ("llamacpp_python", {"guided_regex": REGEX}, matches(REGEX), "converted"),
    ("llamacpp_python", {"guided_choice": CHOICE}, one_of_them, "converted"),
    ("llamacpp_python", {"guided_grammar": EBNF}, matches(ROOM), "enforced"),
]


@pytest.mark.parametrize("ask", CALLERS.values(), ids=CALLERS)
@pytest.mark.parametrize(("engine", "fields", "check", "how"), CLAIMS, ids=[f"{claim[0]}-{at}" for at, claim in enumerate(CLAIMS)])
def test_a_constraint_is_obeyed(
    request: pytest.FixtureRequest,
    caller: openai.OpenAI,
    anthropics: anthropic.Anthropic,
    ask: Caller,
    engine: str,
    fields: dict[str, Any],
    check: Callable[[str], None],
    how: str,
):
    request.getfixturevalue(engine)
    text, told = ask(caller, anthropics, engine, fields)
    check(text)
    assert told == how


@pytest.mark.parametrize("ask", ["chat", "stream", "responses"])
def test_any_object_of_llama_cpp_python_is_looked_at(
    llamacpp_python: Engine, caller: openai.OpenAI, anthropics: anthropic.Anthropic, ask: str
):
    """Messages have no word for it."""
    text, how = CALLERS[ask](caller, anthropics, "llamacpp_python", {"response_format": {"type": "json_object"}})
    valid(OBJECT)(text)
    assert how == "validated"


TAG = {"type": "structural_tag", "format": {"type": "const_string", "value": "a"}}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("llamacpp", {"guided_grammar": LARK}),
    ("llamacpp", {"response_format": TAG}),
    ("llamacpp_python", {"guided_grammar": LARK}),
    ("llamacpp_python", {"response_format": TAG}),
    *(("transformers", fields) for fields in (schema(BOOKING), {"response_format": {"type": "json_object"}}, {"response_format": TAG})),
    *(("transformers", fields) for fields in ({"guided_regex": REGEX}, {"guided_choice": CHOICE}, {"guided_grammar": EBNF})),
]


@pytest.mark.parametrize(("engine", "fields"), REFUSED, ids=[f"{each[0]}-{at}" for at, each in enumerate(REFUSED)])
def test_a_kind_that_the_engine_lacks_is_refused_before_it_is_asked(
    request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str, fields: dict[str, Any]
):
    request.getfixturevalue(engine)
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        caller.chat.completions.create(model=engine, messages=HI, max_tokens=4, extra_body=fields)
    [field] = fields
    assert refused.value.param == field
    assert "x-narthex-served" not in refused.value.response.headers


@pytest.mark.parametrize(("engine", "fields"), REFUSED[:3], ids=[f"{each[0]}-{at}" for at, each in enumerate(REFUSED[:3])])
def test_a_caller_may_go_without(request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str, fields: dict[str, Any]):
    request.getfixturevalue(engine)
    [field] = fields
    asked = caller.chat.completions.with_raw_response
    raw = asked.create(model=engine, messages=HI, max_tokens=4, extra_body=fields, extra_headers={"x-narthex-drop": field})
    assert raw.headers["x-narthex-dropped"] == field
    assert "x-narthex-guided" not in raw.headers


@pytest.mark.parametrize("engine", ["llamacpp", "llamacpp_python"])
def test_a_grammar_that_cannot_be_read_never_gets_there(request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str):
    """It would end llama-cpp-python's process."""
    request.getfixturevalue(engine)
    for field in ("guided_grammar", "grammar"):
        with pytest.raises(openai.BadRequestError):
            caller.chat.completions.create(model=engine, messages=HI, max_tokens=4, extra_body={field: "root ::= ("})
    assert caller.chat.completions.create(model=engine, messages=HI, max_tokens=4).choices
