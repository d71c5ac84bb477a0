"""The charges for responses that did not come to their end, and the adapters that stop when the gateway leaves."""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.exchange import Exchange
from app.gateway.upstream.progress import Charge, ResponseProgress, charge_response
from app.recording.rows.inference_rows import inference_row
from app.recording.spool.exchange_encoding import decode_exchange, encode_exchange
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from providers.adapters.options import InvalidOption
from providers.canonical.chat import Usage
from providers.canonical.errors import NarthexError, UpstreamError
from providers.catalogue import ADAPTERS, build_provider
from tests.support.spooled_exchanges import make_exchange

DOCS = Path(__file__).parents[4] / "docs"
counts = st.none() | st.integers(0, 10_000)


class BrokenOffStream:
    """An editor of a stream that the gateway left."""

    failure: UpstreamError | None = None
    done = False
    model: str | None = None

    def __init__(self, usage: Usage | None, finish_reason: str | None, written_tokens: int) -> None:
        self.usage = usage
        self.finish_reason = finish_reason
        self.written_tokens = written_tokens

    def feed(self, block: bytes) -> bytes:
        return block

    def finish(self) -> bytes:
        return b""

    def write_failure(self, error: NarthexError) -> bytes:
        return b""


def progress_of(editor: BrokenOffStream | None) -> ResponseProgress:
    progress = ResponseProgress(0)
    progress.editor = editor
    return progress


@pytest.mark.parametrize(
    ("editor", "charged"),
    {
        "nothing came": (None, (7, 900, "reserved")),
        "text without usage": (BrokenOffStream(None, None, 4), (7, 900, "reserved")),
        "more text than was reserved": (BrokenOffStream(None, None, 950), (7, 950, "reserved")),
        "a finish without usage, so reasoning is unknown": (BrokenOffStream(None, "stop", 4), (7, 900, "reserved")),
        "Anthropic's first frame": (BrokenOffStream(Usage(5, 1), None, 4), (5, 900, "reserved")),
        "usage so far": (BrokenOffStream(Usage(5, 40), None, 4), (5, 900, "reserved")),
        "the final usage": (BrokenOffStream(Usage(5, 40), "stop", 4), (5, 40, "reported")),
    }.values(),
)
def test_unfinished_response_is_charged_what_was_reserved_unless_its_final_usage_came(
    editor: BrokenOffStream | None, charged: tuple[int, int, str]
):
    charge = progress_of(editor).charge(7, 900)
    assert (charge.usage.input, charge.usage.output, charge.basis) == charged


def test_billed_output_before_the_end_is_not_taken_for_all_of_it():
    charge = progress_of(BrokenOffStream(Usage(50, 40, billed_input=5, billed_output=4), None, 4)).charge(7, 900)
    assert charge.usage == Usage(50, 900, billed_input=5)


def test_response_that_its_engine_ended_is_charged_what_came():
    assert progress_of(BrokenOffStream(Usage(5, 1), None, 4)).charge(7, None) == Charge(Usage(5, 4), "received")


@given(counts, counts, st.integers(0, 10_000), st.none() | st.integers(0, 10_000))
def test_basis_is_reported_exactly_if_both_counts_were_reported(input: int | None, output: int | None, written: int, reserved: int | None):
    charge = charge_response(Usage(input, output), 7, written, reserved)
    assert (charge.basis == "reported") == (input is not None and output is not None)
    assert charge.usage.output == (output if output is not None else max(written, reserved or 0))


def test_basis_is_stored_and_records_without_it_are_read():
    column = INFERENCE_COLUMNS.index("charge_basis")
    assert inference_row(make_exchange(charge_basis="reserved"))[column] == "reserved"
    now = make_exchange()
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(encode_exchange(now))[: Exchange.__struct_fields__.index("charge_basis")])
    assert decode_exchange(older) == now and inference_row(decode_exchange(older))[column] is None


def test_docs_list_every_adapter_by_when_it_stops():
    section = (DOCS / "providers.md").read_text().partition("## Who stops when the caller leaves")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*`) \| (\w+) \|", section, re.MULTILINE)
    documented = {name: stops for names, stops in rows for name in re.findall(r"`(\w+)`", names)}
    assert documented == {name: adapter.stops_on_disconnect for name, adapter in ADAPTERS.items()}


def test_option_overrides_when_a_provider_stops():
    assert build_provider("openai", "p", {}).stops_on_disconnect == "never"
    assert build_provider("openai", "p", {"stops_on_disconnect": "streams"}).stops_on_disconnect == "streams"
    with pytest.raises(InvalidOption, match='may be "always", "streams" or "never"'):
        build_provider("openai", "p", {"stops_on_disconnect": "sometimes"})
