"""A shadow is recorded with whose content it is, and records without that are still read."""

import msgspec

from app.domain.exchange import Exchange, ShadowRecord
from app.domain.uuid7 import mint
from app.recording.rows.inference_rows import inference_row
from app.recording.spool.exchange_encoding import decode_exchange, encode_exchange
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from tests.support.spooled_exchanges import make_exchange

NAMES = ("shadow", "content_team_id", "shadow_first_turn", "shadow_same")
COLUMNS = [INFERENCE_COLUMNS.index(name) for name in NAMES]


def test_shadow_is_stored_without_nul():
    team = mint()
    row = inference_row(make_exchange(shadow=ShadowRecord("a\0b", team, True, False)))
    assert [row[at] for at in COLUMNS] == ["ab", team, True, False]


def test_other_repetitions_are_stored_with_whose_words_they_hold():
    team = mint()
    row = inference_row(make_exchange(origin="replay", content_team_id=team))
    assert [row[at] for at in COLUMNS] == [None, team, None, None]


def test_exchange_of_an_older_version_is_read():
    now = make_exchange()
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(encode_exchange(now))[: Exchange.__struct_fields__.index("shadow")])
    assert decode_exchange(older) == now and [inference_row(now)[at] for at in COLUMNS] == [None] * 4
