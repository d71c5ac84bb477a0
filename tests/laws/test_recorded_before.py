"""What an older version wrote of exchanges is read by this one: fields are only ever appended."""

from typing import Any

import msgspec

from app.domain import Attempt, Exchange
from app.recording.batch import decode_exchange
from app.recording.exchange_encoding import encode_exchange
from app.recording.rows import inference_row
from providers.canonical.chat import Usage
from tests.recorded import exchange

# Of the version before hosts: so many fields were written of each.
USAGE, ATTEMPT = 5, 8


def test_an_exchange_of_before_there_were_hosts_is_read_and_stored():
    usage = Usage(7, 3, 2, 1, 4)
    attempts = (Attempt("host", "m", "http://h", 1, 2, 429, "Overloaded", "later"), Attempt("other", "m", "http://o", 3, 4))
    now = msgspec.structs.replace(exchange(), usage=usage, attempts=attempts)
    told: list[Any] = msgspec.msgpack.decode(encode_exchange(now))
    names = Exchange.__struct_fields__
    told[names.index("usage")] = told[names.index("usage")][:USAGE]
    told[names.index("attempts")] = [each[:ATTEMPT] for each in told[names.index("attempts")]]
    read = decode_exchange(msgspec.msgpack.encode(told))
    assert read == now and inference_row(read) == inference_row(now)


def test_what_was_written_before_stands_where_it_stood():
    assert Usage.__struct_fields__[:USAGE] == ("input", "output", "cached", "reasoning", "cache_written")
    assert Attempt.__struct_fields__[:ATTEMPT] == (
        *("provider", "model", "endpoint", "started_us", "duration_us"),
        *("status", "error", "message"),
    )


def test_no_count_that_a_host_tells_costs_the_record():
    hostile = Usage(2**70, -1, cache_written=2**70, audio_input=2**63, tier="a\0b")
    read = decode_exchange(encode_exchange(msgspec.structs.replace(exchange(), usage=hostile)))
    assert "\0" not in str(inference_row(read)) and "\\u0000" not in str(inference_row(read))
