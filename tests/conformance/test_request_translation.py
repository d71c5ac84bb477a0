"""Requests of every case, from every caller to every target: translated, refused by field, or the dropped hints reported."""

import functools
import json
from typing import Any, cast

import pytest
from msgspec import Struct

from app.gateway.request_translation.caller_fields import apply_constraint_fields, caller_field_names
from providers.canonical.chat import Inline
from providers.canonical.errors import Unsupported
from providers.canonical.media import inline_media, media_urls
from providers.canonical.raw_json import Body
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.drop_policy import DropPolicy
from tests.conformance.request_case import HELLO, DropReported, Refused, RequestCase, Translated
from tests.conformance.request_cases import REQUEST_CASES
from tests.conformance.request_samples import PDF
from tests.conformance.situations import ALL, ANTHROPIC
from tests.support.case_tables import one_test_per_group


class Cell(Struct, frozen=True):
    """A request, who sends it, and the API of the engine that it is translated for."""

    case: RequestCase
    caller: str
    target: str


CELLS = [Cell(case, caller, target) for case in REQUEST_CASES for caller in case.request_fields for target in ALL]


def caller_and_target(cell: Cell) -> str:
    return f"{cell.caller}->{cell.target}"


def group_and_feature(cell: Cell) -> str:
    return f"{cell.case.group}, {cell.case.feature}"


def translate_request(body: Any, caller: str, target: str, *, drops: bool = False) -> tuple[Any, list[str]]:
    """The body that the target receives when a caller sends this one, and the fields that are reported as dropped."""
    caller_dialect, target_dialect = CHAT_DIALECTS[caller], CHAT_DIALECTS[target]
    request_body = caller_dialect.parse_request(json.dumps(body).encode()).body
    chat = caller_dialect.read_request(request_body)
    if caller != target:
        chat = apply_constraint_fields(chat)
        urls = media_urls(chat, target_dialect.inline_media_kinds)
        chat = inline_media(chat, target_dialect.inline_media_kinds, {each: Inline("application/pdf", PDF) for each in urls})
    drop_policy = DropPolicy(
        lambda _: drops,
        caller_field_names(caller_dialect, request_body),
        "the target",
        functools.partial(caller_dialect.caller_path, request_body),
    )
    return json.loads(Body(target_dialect.write_request(chat, drop_policy)).write()), drop_policy.dropped


@one_test_per_group(CELLS, group=caller_and_target, name=group_and_feature)
def test_request_is_translated_refused_by_field_or_its_drops_reported(cell: Cell) -> None:
    case, caller, target = cell.case, cell.caller, cell.target
    body = {**hello_request(caller), **case.request_fields[caller]}
    match case.outcome(caller, target):
        case Refused(param):
            with pytest.raises(Unsupported) as refused:
                translate_request(body, caller, target)
            assert refused.value.param == param and f"`{param}" in refused.value.message
            if not isinstance(case.outcome(caller, caller), Refused):
                assert param in translate_request(body, caller, target, drops=True)[1]
        case Translated(fields) if caller == target:
            same_dialect_body, reported = translate_request(body, caller, caller)
            assert (normalize(same_dialect_body), reported) == (
                normalize({**body, **translated_hello(caller, caller), **(fields or case.request_fields[caller])}),
                [],
            )
        case Translated(fields, _, dropped) | DropReported(dropped, fields):
            upstream_body, reported = translate_request(body, caller, target)
            assert sorted(reported) == sorted(dropped)
            assert normalize(upstream_body) == normalize({**translated_hello(caller, target), **fields})
        case None:
            raise AssertionError("a cell without an outcome")


def hello_request(caller: str) -> dict[str, Any]:
    return {**HELLO[caller], **({"max_tokens": 100} if caller == ANTHROPIC else {})}


def translated_hello(caller: str, target: str) -> dict[str, Any]:
    """A plain hello of this caller as the target receives it: the fields that every translated request has."""
    return translate_request(hello_request(caller), caller, target)[0]


def normalize(body: Any) -> Any:
    """One form for equal bodies: a single text instead of a list of one, and no fields with their default value."""
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
