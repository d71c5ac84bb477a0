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
from tests.conformance.asking import HELLO, Asking, Carried, Refused, Reported
from tests.conformance.asks import ASKS
from tests.conformance.asks_words import PDF
from tests.conformance.situations import ALL, ANTHROPIC

CELLS = [
    pytest.param(asking, caller, target, id=f"{caller}->{target}: {asking.feature}")
    for asking in ASKS
    for caller in asking.says
    for target in ALL
]


def written(body: Any, caller: str, target: str, *, drops: bool = False) -> tuple[Any, list[str]]:
    """What the target is asked when a caller sends this body, and what is reported as dropped."""
    ours, theirs = CHAT_DIALECTS[caller], CHAT_DIALECTS[target]
    asked = ours.parse_request(json.dumps(body).encode()).body
    chat = ours.read_request(asked)
    if caller != target:
        chat = apply_constraint_fields(chat)
        wanted = media_urls(chat, theirs.inline_media_kinds)
        chat = inline_media(chat, theirs.inline_media_kinds, {each: Inline("application/pdf", PDF) for each in wanted})
    concessions = DropPolicy(lambda _: drops, caller_field_names(ours, asked), "the target", functools.partial(ours.caller_path, asked))
    return json.loads(Body(theirs.write_request(chat, concessions)).write()), concessions.dropped


@pytest.mark.parametrize(("asking", "caller", "target"), CELLS)
def test_a_request_is_carried_refused_or_reported(asking: Asking, caller: str, target: str):
    said = {**whole(caller), **asking.says[caller]}
    match asking.outcome(caller, target):
        case Refused(param):
            with pytest.raises(Unsupported) as refused:
                written(said, caller, target)
            assert refused.value.param == param and f"`{param}" in refused.value.message
            if not isinstance(asking.outcome(caller, caller), Refused):
                assert param in written(said, caller, target, drops=True)[1]
        case Carried() if caller == target:
            again, reported = written(said, caller, caller)
            assert (plain(again), reported) == (plain({**said, **base(caller, caller), **asking.says[caller]}), [])
        case Carried(reads, _, dropped) | Reported(dropped, reads):
            told, reported = written(said, caller, target)
            assert sorted(reported) == sorted(dropped)
            assert plain(told) == plain({**base(caller, target), **reads})
        case None:
            raise AssertionError("a cell without an outcome")


def whole(caller: str) -> dict[str, Any]:
    return {**HELLO[caller], **({"max_tokens": 100} if caller == ANTHROPIC else {})}


def base(caller: str, target: str) -> dict[str, Any]:
    """A plain hello of this caller's on the target's wire: what crosses with every request."""
    return written(whole(caller), caller, target)[0]


def plain(body: Any) -> Any:
    """The ways in which a dialect lets one say the same made one: a single text for a list of it, and what is told by default left out."""
    if isinstance(body, list):
        return [plain(each) for each in cast("list[Any]", body)]
    if not isinstance(body, dict):
        return body
    out = {key: plain(value) for key, value in cast("dict[str, Any]", body).items() if value is not None}
    for key in ("content", "instructions", "system", "output"):
        match out.get(key):
            case [{"type": "text" | "input_text" | "output_text", "text": words, **more}] if not any(more.values()):
                out[key] = words
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


def test_no_cell_is_blank():
    for asking in ASKS:
        for caller in asking.says:
            assert all(asking.outcome(caller, target) is not None for target in ALL if target != caller), asking.feature
