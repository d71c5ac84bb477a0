"""Trace context: what a caller sends is taken over only where it is well-formed, and spans of one request have ids of their own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import uuid7
from app.otel.trace_context import TraceContext, attempt_span_id, inference_span_id, read_trace_context, server_span_id

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"


def read(*headers: tuple[str, str]) -> TraceContext | None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return read_trace_context(dict(raw), raw)


def test_trace_of_the_caller_is_passed_on_as_it_came():
    trace = read(("traceparent", GOOD), ("tracestate", "vendor=a b, other@x=1"))
    assert trace is not None and (trace.trace_id, trace.parent_span_id, trace.sampled) == (TRACE, SPAN, True)
    assert trace.header_lines(uuid7.mint(), 7) == f"traceparent: {GOOD}\r\ntracestate: vendor=a b,other@x=1\r\n".encode()


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        GOOD.upper(),
        GOOD + "-more",  # version 00 has nothing more
        "ff" + GOOD[2:],
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01\r\nx: y",
        f"00-{TRACE}-{SPAN}-0g",
        f"00_{TRACE}_{SPAN}_01",
        "00-" + "é" * 32 + f"-{SPAN}-01",
    ],
)
def test_malformed_traceparent_is_ignored_with_its_state(value: str):
    assert read(("traceparent", value), ("tracestate", "a=1")) is None


def test_two_traceparents_are_ignored():
    assert read(("traceparent", GOOD), ("traceparent", GOOD)) is None


def test_tracestate_alone_is_ignored():
    assert read(("tracestate", "a=1")) is None


def test_later_version_is_read_and_passed_on_as_version_00():
    trace = read(("traceparent", f"cc-{TRACE}-{SPAN}-ff-what-comes-later"))
    assert trace is not None and trace.sampled
    assert (
        trace.header_lines(uuid7.mint(), 0) == f"traceparent: 00-{TRACE}-{SPAN}-03\r\n".encode()
    )  # flags that we do not know are left out


@pytest.mark.parametrize("state", ["novalue", "A=1", "a=1,b=\x01", "a=é", "a=1=2", "=1", "a b=1"])
def test_malformed_tracestate_is_left_out(state: str):
    trace = read(("traceparent", GOOD), ("tracestate", state))
    assert trace is not None and trace.state == b""


def test_tracestate_of_several_headers_is_joined_and_cut_at_its_oldest_members():
    members = [f"v{number}=x" for number in range(40)]
    trace = read(("traceparent", GOOD), ("tracestate", ",".join(members[:20])), ("tracestate", ",".join(members[20:])))
    assert trace is not None and trace.state.decode().split(",") == members[:32]
    long = read(("traceparent", GOOD), ("tracestate", f"a={'x' * 250},b={'y' * 250},c={'z' * 250}"))
    assert long is not None and long.state.decode() == f"a={'x' * 250},b={'y' * 250}"


def test_engines_get_the_span_of_the_attempt_where_spans_are_exported():
    id = uuid7.mint()
    trace = TraceContext(TRACE, SPAN, True, 3, replaces_parent=True)
    assert trace.header_lines(id, 250) == f"traceparent: 00-{TRACE}-{attempt_span_id(id, 250)}-03\r\n".encode()
    begun_here = TraceContext(TRACE, None, True, 3)
    assert begun_here.header_lines(id, 250) == trace.header_lines(id, 250)


@given(st.integers(0, 2**48), st.integers(0, 10**9), st.integers(0, 10**9))
def test_spans_of_a_request_have_different_ids(at_ms: int, first_us: int, second_us: int):
    id = uuid7.mint(at_ms)
    spans = {server_span_id(id), inference_span_id(id), attempt_span_id(id, first_us), attempt_span_id(id, second_us)}
    assert len(spans) == (3 if first_us == second_us else 4)
    assert all(len(span) == 16 and int(span, 16) for span in spans)


@given(st.binary(max_size=200))
def test_no_header_of_a_caller_can_begin_another_line(value: bytes):
    raw = [(b"traceparent", GOOD.encode()), (b"tracestate", value)]
    trace = read_trace_context(dict(raw), raw)
    assert trace is not None and trace.header_lines(uuid7.mint(), 0).count(b"\r\n") == 1 + bool(trace.state)
    assert b"\r" not in trace.state and b"\n" not in trace.state and len(trace.state) <= 512
    read_trace_context({b"traceparent": value}, [(b"traceparent", value)])
