"""Exchanges written by an older version are read by this one: fields are only ever appended."""

from typing import Any

import msgspec
import pytest

from app.domain.exchange import Attempt, Exchange
from app.recording.rows.inference_rows import inference_row
from app.recording.spool.exchange_encoding import decode_exchange, encode_exchange
from providers.canonical.chat import Usage
from tests.support.spooled_exchanges import make_exchange

# How many fields the version before hosts wrote.
OLD_USAGE_FIELDS, OLD_ATTEMPT_FIELDS = 5, 8


def test_exchange_written_without_the_newer_fields_is_read_and_stored():
    usage = Usage(7, 3, 2, 1, 4)
    attempts = (Attempt("host", "m", "http://h", 1, 2, 429, "Overloaded", "later"), Attempt("other", "m", "http://o", 3, 4))
    now = msgspec.structs.replace(make_exchange(), usage=usage, attempts=attempts)
    fields: list[Any] = msgspec.msgpack.decode(encode_exchange(now))
    names = Exchange.__struct_fields__
    fields[names.index("usage")] = fields[names.index("usage")][:OLD_USAGE_FIELDS]
    fields[names.index("attempts")] = [each[:OLD_ATTEMPT_FIELDS] for each in fields[names.index("attempts")]]
    read = decode_exchange(msgspec.msgpack.encode(fields))
    assert read == now and inference_row(read) == inference_row(now)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (("hung_up", "HungUp"), ("disconnected", "ClientDisconnected")),
        (("cut", "Cut"), ("aborted", "Aborted")),
        (("failed", "CutShort"), ("failed", "StreamTruncated")),
    ],
)
def test_outcomes_and_errors_under_their_older_names_are_read_under_todays(written: tuple[str, str], read: tuple[str, str]):
    attempt = Attempt("host", "m", "http://h", 1, 2, 200, written[1])
    fields: list[Any] = msgspec.msgpack.decode(encode_exchange(msgspec.structs.replace(make_exchange(), attempts=(attempt,))))
    fields[Exchange.__struct_fields__.index("outcome")] = written[0]
    exchange = decode_exchange(msgspec.msgpack.encode(fields))
    assert (exchange.outcome, exchange.attempts[0].error) == read
    fields[Exchange.__struct_fields__.index("error")] = written[1]
    assert decode_exchange(msgspec.msgpack.encode(fields)).error == read[1]
    fields[Exchange.__struct_fields__.index("outcome")] = "unknown outcome"
    with pytest.raises(msgspec.ValidationError):
        decode_exchange(msgspec.msgpack.encode(fields))


def test_older_fields_keep_their_positions():
    assert Usage.__struct_fields__[:OLD_USAGE_FIELDS] == ("input", "output", "cached", "reasoning", "cache_written")
    assert Attempt.__struct_fields__[:OLD_ATTEMPT_FIELDS] == (
        *("provider", "model", "endpoint", "started_us", "duration_us"),
        *("status", "error", "message"),
    )


def test_implausible_usage_does_not_break_the_record():
    hostile = Usage(2**70, -1, cache_written=2**70, audio_input=2**63, tier="a\0b")
    read = decode_exchange(encode_exchange(msgspec.structs.replace(make_exchange(), usage=hostile)))
    assert "\0" not in str(inference_row(read)) and "\\u0000" not in str(inference_row(read))
