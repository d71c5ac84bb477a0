"""DropPolicy: which fields are refused, dropped and reported, and by which names."""

import pytest
from msgspec import Raw

from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy


def test_caller_paths_are_looked_up_at_most_max_paths_times():
    lookups: list[str] = []

    def caller_path(path: str) -> str:
        lookups.append(path)
        return path.replace("messages", "input")

    drop_policy = DropPolicy(lambda _: True, {}, "a target", caller_path, max_paths=2)
    for at in range(5_000):
        drop_policy.drop_hint(f"messages[{at}].name")
        drop_policy.drop_extra_field(f"messages[{at}].cache_control", Raw(b"{}"), "it has none.")
    assert drop_policy.dropped == ["input[0].name", "input[0].cache_control", "messages[].name", "messages[].cache_control"]
    assert len(lookups) == 2


def test_neutral_extra_field_is_neither_refused_nor_reported():
    drop_policy = DropPolicy(lambda _: False, {}, "a target")
    for value in (b"null", b"[]", b'""', b'[ "direct" ]', b'{"enabled": false}'):
        drop_policy.drop_extra_field("tools[0].allowed_callers", Raw(value), "it has none.")
    assert drop_policy.dropped == []


def test_dropped_top_level_fields_are_removed_from_the_body():
    body = Body(seed=1, user="u", n=2, messages=[])
    drop_policy = DropPolicy(lambda field: field in ("seed", "messages"), {}, "a target", body=body)
    drop_policy.drop_or_refuse("seed", "it has none.")
    drop_policy.drop_or_refuse("messages[0].name", "it has none.")
    drop_policy.drop_hint("user")
    with pytest.raises(Unsupported, match=r"`n` cannot be honoured by a target: it has none\.") as refused:
        drop_policy.drop_or_refuse("n", "it has none.")
    assert refused.value.param == "n"
    assert body == {"n": 2, "messages": []}
    assert drop_policy.dropped == ["seed", "messages[0].name", "user"]


def test_accepted_field_stays_in_the_body_and_is_not_reported():
    body = Body(seed=1)
    drop_policy = DropPolicy(lambda _: True, {}, "a target", body=body, accepted=["seed"])
    drop_policy.drop_or_refuse("seed", "it has none.")
    assert (body, drop_policy.dropped) == ({"seed": 1}, [])


def test_neutral_fields_leave_the_body_without_a_report():
    body = Body(n=1, stop=Raw(b"null"), echo=Raw(b"true"), seed=0)
    drop_policy = DropPolicy(lambda _: False, {}, "a target", body=body)
    drop_policy.drop_neutral({"n": (1,), "stop": ([],), "echo": (False,)})
    assert body.keys() == {"echo", "seed"}
    assert drop_policy.dropped == []
