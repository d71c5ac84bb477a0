"""What our vLLM adapter relies on, seen on a real vLLM: which schemas it holds all of its answers to, and which it does not."""

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from providers.engines.vllm_schemas import is_obeyed
from tests.engines.asking import ask
from tests.engines.running_vllm import Engine
from tests.engines.schemas_seen import OBEYED, PASSED_OVER
from tests.engines.shapes import ENOUGH_TOKENS

pytestmark = pytest.mark.engines

SAMPLES = 8


def faults(vllm: Engine, schema: dict[str, Any]) -> list[bool]:
    """Of each answer that came to its end, whether it is not what the schema says."""
    asked: dict[str, Any] = {"structured_outputs": {"json": schema}, "n": SAMPLES, "max_tokens": ENOUGH_TOKENS}
    answers = [answer for seed in range(3) for answer in ask(vllm, seed=seed, **asked).json()["choices"]]
    ended = [answer["message"]["content"] for answer in answers if answer["finish_reason"] == "stop"]
    assert ended
    return [is_fault(text, schema) for text in ended]


def is_fault(text: str, schema: dict[str, Any]) -> bool:
    checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    try:
        return not checker.is_valid(json.loads(text))  # pyright: ignore[reportUnknownMemberType]
    except ValueError:
        return True


@pytest.mark.parametrize("what", OBEYED)
def test_a_schema_of_which_we_promise_it_holds_every_answer(vllm: Engine, what: str):
    assert is_obeyed(msgspec.Raw(msgspec.json.encode(OBEYED[what])))
    assert not any(faults(vllm, OBEYED[what]))


@pytest.mark.parametrize("what", PASSED_OVER)
def test_a_schema_of_which_we_look_at_the_answer_does_not_hold_every_one(vllm: Engine, what: str):
    assert not is_obeyed(msgspec.Raw(msgspec.json.encode(PASSED_OVER[what])))
    assert any(faults(vllm, PASSED_OVER[what]))
