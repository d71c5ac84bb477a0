"""Requests that the gateway makes itself: recorded with why and of which inference, and records without that are still read."""

import msgspec

from app.domain.exchange import Exchange
from app.domain.uuid7 import mint
from app.recording.rows.inference_rows import inference_row
from app.recording.spool.exchange_encoding import decode_exchange, encode_exchange
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from tests.support.spooled_exchanges import make_exchange

COLUMNS = [INFERENCE_COLUMNS.index(name) for name in ("origin", "original_id", "replay_id")]


def test_origin_is_stored():
    original, replay = mint(), mint()
    row = inference_row(make_exchange(origin="replay", original_id=original, replay_id=replay))
    assert [row[at] for at in COLUMNS] == ["replay", original, replay]


def test_exchange_of_an_older_version_is_read():
    now = make_exchange()
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(encode_exchange(now))[: Exchange.__struct_fields__.index("origin")])
    assert decode_exchange(older) == now and [inference_row(now)[at] for at in COLUMNS] == [None, None, None]
