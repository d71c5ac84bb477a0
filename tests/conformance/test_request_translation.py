"""The conformance suite of requests: every situation, for every caller and target: carried, refused by its name, or reported."""

import functools
import json
from typing import Any, cast

import pytest

from app.gateway.request_translation.translator import apply_constraint_fields, caller_field_names
from providers.canonical.chat import Inline
from providers.canonical.errors import Unsupported
from providers.canonical.media import inline_media, media_urls
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy
from providers.dialects.catalogue import CHAT_DIALECTS
from tests.conformance.request_case import HELLO, DropReported, Refused, RequestCase, Translated
from tests.conformance.request_cases import REQUEST_CASES
from tests.conformance.request_samples import PDF
from tests.conformance.situations import ALL, ANTHROPIC

CELLS = [
    pytest.param(asking, caller, target, id=f"{caller}->{target}: {asking.feature}")
    for asking in REQUEST_CASES
    for caller in asking.request_fields
    for target in ALL
]


def translate_request(body: Any, caller: str, target: str, *, drops: bool = False) -> tuple[Any, list[str]]:
    """What the target is asked when a caller sends this body, and what is reported as dropped."""
    caller_dialect, target_dialect = CHAT_DIALECTS[caller], CHAT_DIALECTS[target]
    request_body = caller_dialect.parse_request(json.dumps(body).encode()).body
    chat = caller_dialect.read_request(request_body)
    if caller != target:
        chat = apply_constraint_fields(chat)
        wanted = media_urls(chat, target_dialect.inline_media_kinds)
        chat = inline_media(chat, target_dialect.inline_media_kinds, {each: Inline("application/pdf", PDF) for each in wanted})
    drop_policy = DropPolicy(
        lambda _: drops,
        caller_field_names(caller_dialect, request_body),
        "the target",
        functools.partial(caller_dialect.caller_path, request_body),
    )
    return json.loads(Body(target_dialect.write_request(chat, drop_policy)).write()), drop_policy.dropped


@pytest.mark.parametrize(("asking", "caller", "target"), CELLS)
def test_request_is_translated_refused_by_field_or_its_drops_reported(asking: RequestCase, caller: str, target: str):
    body = {**hello_request(caller), **asking.request_fields[caller]}
    match asking.outcome(caller, target):
        case Refused(param):
            with pytest.raises(Unsupported) as refused:
                translate_request(body, caller, target)
            assert refused.value.param == param and f"`{param}" in refused.value.message
            if not isinstance(asking.outcome(caller, caller), Refused):
                assert param in translate_request(body, caller, target, drops=True)[1]
        case Translated() if caller == target:
            same_dialect_body, reported = translate_request(body, caller, caller)
            assert (normalize(same_dialect_body), reported) == (
                normalize({**body, **translated_hello(caller, caller), **asking.request_fields[caller]}),
                [],
            )
        case Translated(reads, _, dropped) | DropReported(dropped, reads):
            upstream_body, reported = translate_request(body, caller, target)
            assert sorted(reported) == sorted(dropped)
            assert normalize(upstream_body) == normalize({**translated_hello(caller, target), **reads})
        case None:
            raise AssertionError("a cell without an outcome")


def hello_request(caller: str) -> dict[str, Any]:
    return {**HELLO[caller], **({"max_tokens": 100} if caller == ANTHROPIC else {})}


def translated_hello(caller: str, target: str) -> dict[str, Any]:
    """A plain hello of this caller's on the target's wire: what crosses with every request."""
    return translate_request(hello_request(caller), caller, target)[0]


def normalize(body: Any) -> Any:
    """The ways in which a dialect lets one say the same made one: a single text for a list of it, and what is told by default left out."""
    if isinstance(body, list):
        return [normalize(each) for each in cast("list[Any]", body)]
    if not isinstance(body, dict):
        return body
    out = {key: normalize(value) for key, value in cast("dict[str, Any]", body).items() if value is not None}
    for key in ("content", "instructions", "system", "output"):
        match out.get(key):
            case [{"type": "text" | "input_text" | "output_text", "text": content, **more}] if not any(more.values()):
                out[key] = content
            case _:
                pass
    if isinstance(out.get("input"), str):
        out["input"] = [{"role": "user", "content": out["input"]}]
    if isinstance(arguments := out.get("arguments"), str):
        out["arguments"] = json.loads(arguments)
    if out.get("type") == "message":
        del out["type"]
    if out.get("role") == "assistant":
        out = {key: value for key, value in out.items() if key not in ("id", "status")}
    if out.get("type") in ("reasoning", "function_call", "function_call_output"):
        out = {key: value for key, value in out.items() if key not in ("id", "status")}
    return out


def test_every_request_case_has_an_outcome_for_every_other_dialect():
    for request_case in REQUEST_CASES:
        for caller in request_case.request_fields:
            assert all(request_case.outcome(caller, target) is not None for target in ALL if target != caller), request_case.feature
