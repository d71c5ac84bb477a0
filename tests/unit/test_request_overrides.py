"""Overrides of a caller: where a pointer leads, whom they are for, and what none of them may set."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.fields import OUTPUT_BOUND_FIELDS
from providers.request_overrides.overrides import RequestOverrides, Scope
from providers.request_overrides.read_overrides import MAX_ENTRIES, MAX_HEADERS, MAX_VALUE_BYTES, read_overrides
from providers.structured_output import CONSTRAINT_FIELDS

HERE = Scope("m", "p", "v")


def read(extra_body: Any = None, extra_headers: Any = None, provider_tools: Any = None) -> RequestOverrides:
    def raw(value: Any) -> Raw | None:
        return None if value is None else Raw(json.dumps(value).encode())

    overrides = read_overrides(raw(extra_body), raw(extra_headers), raw(provider_tools))
    assert overrides is not None
    return overrides


def applied(body: Any, *entries: Any) -> Any:
    changed = Body.read(json.dumps(body).encode())
    read(list(entries)).apply(changed, HERE)
    return json.loads(changed.write())


@pytest.mark.parametrize(
    ("body", "entry", "result"),
    [
        ({}, {"pointer": "/a", "value": 1}, {"a": 1}),
        ({"a": 0}, {"pointer": "/a", "value": None}, {"a": None}),
        ({}, {"pointer": "/a/b/c", "value": {"x": 1}}, {"a": {"b": {"c": {"x": 1}}}}),
        ({"a": {"b": 1}}, {"pointer": "/a/c", "value": 2}, {"a": {"b": 1, "c": 2}}),
        ({"a": [1, 2]}, {"pointer": "/a/1", "value": 3}, {"a": [1, 3]}),
        ({"a": [1]}, {"pointer": "/a/-", "value": 2}, {"a": [1, 2]}),
        ({"a": [1]}, {"pointer": "/a/-/b", "value": 2}, {"a": [1, {"b": 2}]}),
        ({}, {"pointer": "/x~1y~0z", "value": 1}, {"x/y~z": 1}),
        ({"a": 1, "b": 2}, {"pointer": "/a", "delete": True}, {"b": 2}),
        ({"a": {"b": 1}}, {"pointer": "/a/b", "delete": True}, {"a": {}}),
        ({"a": [1, 2]}, {"pointer": "/a/0", "delete": True}, {"a": [2]}),
        ({"a": [1]}, {"pointer": "/a/7/b", "delete": True}, {"a": [1]}),
        ({}, {"pointer": "/a/b", "delete": True}, {}),
    ],
)
def test_pointer_leads_where_rfc_6901_says(body: Any, entry: Any, result: Any):
    assert applied(body, entry) == result


def test_later_entries_see_what_earlier_ones_have_set_and_no_other_request_does():
    overrides = read([{"pointer": "/a", "value": {"list": []}}, {"pointer": "/a/list/-", "value": 1}])
    for _ in range(2):
        body = Body()
        overrides.apply(body, HERE)
        assert json.loads(body.write()) == {"a": {"list": [1]}}


def test_pointer_into_a_large_field_is_refused():
    body = Body(a=Raw(b"[" + b"1," * 200_000 + b"1]"))
    with pytest.raises(InvalidRequest, match="400003 bytes"):
        read([{"pointer": "/a/0", "value": 2}]).apply(body, HERE)


def test_field_is_copied_again_after_an_entry_replaced_it():
    overrides = read([{"pointer": "/a/b", "value": 1}, {"pointer": "/a", "value": {"c": 2}}, {"pointer": "/a/d", "value": 3}])
    for _ in range(2):
        body = Body(a={"b": 0})
        overrides.apply(body, HERE)
        assert json.loads(body.write()) == {"a": {"c": 2, "d": 3}}


def test_values_of_the_request_itself_are_not_changed_in_place():
    shared = {"b": 1}
    body = Body(a=shared)
    read([{"pointer": "/a/b", "value": 2}]).apply(body, HERE)
    assert (shared, body["a"]) == ({"b": 1}, {"b": 2})


@pytest.mark.parametrize(
    ("scope", "applies"),
    [
        ({}, True),
        ({"model_name": "m"}, True),
        ({"model_name": "other"}, False),
        ({"model_name": "m", "provider_name": "p"}, True),
        ({"model_name": "m", "provider_name": "other"}, False),
        ({"variant_name": "v"}, True),
        ({"variant_name": "other"}, False),
    ],
)
def test_override_is_for_its_scope_alone(scope: Any, applies: bool):
    assert applied({}, {"pointer": "/a", "value": 1, **scope}) == ({"a": 1} if applies else {})
    headers = read(extra_headers=[{"name": "X-A", "value": "1", **scope}]).headers_for(HERE)
    assert headers == ({"x-a": "1"} if applies else {})


def test_tool_of_a_provider_follows_the_requests_own():
    body = Body.read(b'{"tools":[{"type":"function"}]}')
    scoped = {"scope": {"model_name": "other", "provider_name": None}, "tool": {"type": "x"}}
    read(provider_tools=[{"scope": None, "tool": {"type": "web_search"}}, scoped]).apply(body, HERE)
    assert json.loads(body.write()) == {"tools": [{"type": "function"}, {"type": "web_search"}]}


def test_last_header_of_a_name_counts_and_can_be_taken_back():
    entries = [{"name": "X-A", "value": "1"}, {"name": "x-a", "value": "2"}, {"name": "x-b", "value": "3"}, {"name": "X-B", "delete": True}]
    assert read(extra_headers=entries).headers_for(HERE) == {"x-a": "2"}


OWN = ("model", "stream", "messages", "prompt", "input", "system", "contents", "tools", "tool_choice", "response_format", "n", "store")
PLACES = ("previous_response_id", "conversation", "container", "cachedContent", "guardrailConfig")


@pytest.mark.parametrize("name", [*OWN, *PLACES, *sorted(OUTPUT_BOUND_FIELDS), *sorted(CONSTRAINT_FIELDS - {"format"}), "maxOutputTokens"])
def test_what_the_gateway_reads_bounds_and_checks_cannot_be_set(name: str):
    for entry in (
        {"pointer": f"/{name}", "value": 1},
        {"pointer": f"/{name.upper()}", "value": 1},
        {"pointer": f"/{name}", "delete": True},
    ):
        with pytest.raises(InvalidRequest) as refused:
            read([entry])
        assert refused.value.param == "extra_body[0].pointer"


@pytest.mark.parametrize(
    "entry",
    [
        {"pointer": "/generation_config/max_new_tokens", "value": 9},
        {"pointer": "/options", "value": {"num_predict": 9}},
        {"pointer": "/a", "value": [{"b": {"image_url": "file:///etc/passwd"}}]},
        {"pointer": "/a", "value": {"fileUri": "gs://x"}},
        {"pointer": "/a/url", "value": "http://169.254.169.254"},
        {"pointer": "/nvext/guided_json", "value": {}},
        {"pointer": "/a", "value": {"server_url": "http://x"}},
        {"pointer": "a", "value": 1},
        {"pointer": "", "value": 1},
        {"pointer": "/", "value": 1},
        {"pointer": "/a"},
        {"pointer": "/a", "value": 1, "delete": True},
        {"pointer": "/a", "value": 1, "name": "x"},
        {"pointer": "/a", "value": 1, "provider_name": "p"},
        {"pointer": "/a", "value": 1, "provider_name": "p", "model_name": "m", "variant_name": "v"},
        {"pointer": "/a", "value": 1, "extra": 1},
        {"value": 1},
        {"pointer": "/" + "a/" * 17, "value": 1},
        {"pointer": "/" + "a" * 600, "value": 1},
        {"pointer": "/a", "value": "x" * (MAX_VALUE_BYTES + 1)},
        {"pointer": "/a", "value": json.loads("[" * 40 + "]" * 40)},
    ],
)
def test_entry_that_is_wrong_or_reaches_too_far_is_refused(entry: Any):
    with pytest.raises(InvalidRequest, match="extra_body"):
        read([entry])


@pytest.mark.parametrize("entry", [{"pointer": "/a/5", "value": 1}, {"pointer": "/a/x", "value": 1}, {"pointer": "/b/c", "value": 1}])
def test_pointer_that_leads_nowhere_in_the_body_is_refused(entry: Any):
    with pytest.raises(InvalidRequest, match="pointer"):
        applied({"a": [1], "b": "text"}, entry)


def test_numbers_of_entries_are_bounded():
    with pytest.raises(InvalidRequest):
        read([{"pointer": "/a", "value": 1}] * (MAX_ENTRIES + 1))
    with pytest.raises(InvalidRequest):
        read(extra_headers=[{"name": "x-a", "value": "1"}] * (MAX_HEADERS + 1))
    with pytest.raises(InvalidRequest):
        read(provider_tools=[{"tool": {}}] * (MAX_ENTRIES + 1))
    with pytest.raises(InvalidRequest):
        read(provider_tools=[{"tool": {"server_url": "http://x"}}])


REFUSED_HEADERS = (
    *("Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "api-key", "x-goog-api-key", "X-Amz-Security-Token"),
    *("Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade", "Expect"),
    *("X-Narthex-Tags", "x-narthex-drop", "X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "traceparent", "X-Request-Id"),
    *("OpenAI-Organization", "OpenAI-Project", "anthropic-workspace", "x-prefiller-host-port", "x-gateway-destination-endpoint"),
    *("x-session-id", "x-user-id", "X-Model", "x-lora", "x-data-parallel-rank", "User-Agent", "Accept-Encoding", "anthropic-version"),
    *("Transfer_Encoding", "x_real_ip", "\u212aeep-alive", "X-Vertex-AI-LLM-Shared-Request-Type"),
)


@pytest.mark.parametrize("name", REFUSED_HEADERS)
def test_header_of_an_identity_a_place_or_the_connection_is_refused(name: str):
    with pytest.raises(InvalidRequest) as refused:
        read(extra_headers=[{"name": name, "value": "1"}])
    assert refused.value.param == "extra_headers[0].name"


@pytest.mark.parametrize("entry", [{"name": "a b", "value": "1"}, {"name": "", "value": "1"}, {"name": "x-a", "value": 1}, {"name": "x-a"}])
def test_header_that_is_none_is_refused(entry: Any):
    with pytest.raises(InvalidRequest):
        read(extra_headers=[entry])


@given(st.text(max_size=30))
def test_no_value_of_a_header_ends_its_line(value: str):
    try:
        headers = read(extra_headers=[{"name": "x-a", "value": value}]).headers_for(HERE)
    except InvalidRequest:
        return
    assert headers == {"x-a": value} and value.isascii() and (value == "" or value.isprintable()) and value == value.strip()


@pytest.mark.parametrize("name", ["anthropic-beta", "openai-beta", "X-Safety-Checks", "HTTP-Referer", "X-Title"])
def test_other_headers_pass(name: str):
    assert read(extra_headers=[{"name": name, "value": "on"}]).headers_for(HERE) == {name.lower(): "on"}
