"""The name of an episode is recorded, and records without it are still read."""

import msgspec

from app.domain.exchange import Exchange
from app.recording.rows.inference_rows import inference_row
from app.recording.spool.exchange_encoding import decode_exchange, encode_exchange
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from tests.support.spooled_exchanges import make_exchange

COLUMN = INFERENCE_COLUMNS.index("episode_name")


def test_name_is_stored():
    assert inference_row(make_exchange(episode_name="Gespräch 7"))[COLUMN] == "Gespräch 7"


def test_exchange_of_an_older_version_is_read():
    now = make_exchange()
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(encode_exchange(now))[: Exchange.__struct_fields__.index("episode_name")])
    assert decode_exchange(older) == now and inference_row(decode_exchange(older))[COLUMN] is None
