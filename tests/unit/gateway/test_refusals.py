"""Refusals in a gateway process: what callers can make up takes no memory, and nobody's storm hides another's refusals."""

import asyncio
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.domain.callers import Caller
from app.domain.routing import ModelConfig
from app.domain.snapshot import Snapshot
from app.gateway.pipeline import refusals
from app.gateway.pipeline.refusals import MAX_COUNTS, MAX_SAMPLES, MAX_SAMPLES_OF_REASON, MAX_SAMPLES_OF_TEAM, RefusalRecorder
from app.gateway.state.context import RequestContext
from app.gateway.state.episode_id import Episode
from app.gateway.state.stages import Admitted, Authenticated
from app.recording.spool.disk_space import REFRESH_EVERY_S
from app.recording.spool.refusal_records import Refusals, decode_refusals
from app.recording.spool.segment_format import list_segments
from app.recording.spool.segment_reader import SegmentReader
from app.recording.spool.segment_records import RefusalsRecord
from app.recording.spool.spool import Spool
from app.settings import Settings
from providers.canonical.errors import CallerCredentialRequired, InvalidRequest, LimitExceeded, NarthexError, NotAllowed, UnknownModel
from providers.catalogue import DIALECTS
from tests.support.spooled_exchanges import spool_exchange

SNAPSHOT = Snapshot(1, "hash", {}, {"known": ModelConfig(())})
CHAT = DIALECTS["openai_chat"]


class Connection:
    disconnected = False


class Gateway:
    """The recorder of one process, and what it wrote."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.folder = home / "spool"
        self.spool = Spool(self.folder, Settings(home=home, **settings))
        self.recorder = RefusalRecorder(self.spool)

    def refuse(
        self, error: NarthexError, caller: Caller | None = None, model: str | None = None, minute: int = 0, unknown_key: str | None = None
    ) -> RequestContext:
        context = RequestContext("openai_chat", Connection())
        context.received_us += minute * 60_000_000
        context.key_holder = caller
        if model is not None and caller is not None:
            body = b'{"model": "%b", "messages": [{"role": "user", "content": "hi"}]}' % model.encode()
            context.stage = Admitted(Authenticated(caller), CHAT.parse_request(body), Episode(context.id, "minted"), {})
        self.recorder.add(context, error, SNAPSHOT, unknown_key)
        return context

    def written(self) -> list[Refusals]:
        self.recorder.write()
        found: list[Refusals] = []
        for each in sorted(list_segments(self.folder)):
            reader = SegmentReader(Path(each.path), 0)
            while records := reader.read(100):
                found += [decode_refusals(record.body) for record in records if isinstance(record, RefusalsRecord)]
            reader.close()
        return found


@pytest.fixture
def gateway(tmp_path: Path) -> Gateway:
    return Gateway(tmp_path)


def caller(team: int = 1, key: int = 2, **changes: Any) -> Caller:
    made = Caller(str(uuid.UUID(int=key)), str(uuid.UUID(int=team)), "t", "full")
    return msgspec.structs.replace(made, **changes)


def limit_exceeded(rule: str) -> LimitExceeded:
    return LimitExceeded("no room", code="requests_limit_reached", details={"rule": rule}, retry_after_s=1, headers=())


def test_a_storm_of_made_up_models_is_one_group_and_a_few_samples(gateway: Gateway):
    for number in range(50_000):
        gateway.refuse(UnknownModel(f"There is no model m-{number}", param="model"), caller(), f"m-{number}")
    [refused] = gateway.written()
    assert {each.model for each in refused.counts} == {"(unknown)"} and sum(each.requests for each in refused.counts) == 50_000
    assert len(refused.counts) <= 2, "a minute may have begun"
    assert len(refused.samples) <= 2 * MAX_SAMPLES_OF_REASON


def test_a_storm_does_not_hide_the_refusals_of_others(gateway: Gateway):
    for number in range(2_000):
        gateway.refuse(CallerCredentialRequired("unknown"))
        gateway.refuse(limit_exceeded(f"rule {number % 100}"), caller(team=1, key=number % 50))
    other = gateway.refuse(limit_exceeded("theirs"), caller(team=7, key=9))
    samples = [each for refused in gateway.written() for each in refused.samples]
    assert samples[-1].id == other.id
    teams = Counter((each.received_us // 60_000_000, each.team_id) for each in samples)
    assert max(teams.values()) == MAX_SAMPLES_OF_TEAM


def test_one_unknown_key_does_not_hide_another(gateway: Gateway):
    for _ in range(1_000):
        gateway.refuse(CallerCredentialRequired("unknown"), unknown_key="0123456789ab")
    gateway.refuse(CallerCredentialRequired("unknown"), unknown_key="ba9876543210")
    samples = [each for refused in gateway.written() for each in refused.samples]
    assert samples[-1].unknown_key == "ba9876543210" and len(samples) <= 2 * MAX_SAMPLES_OF_REASON + 1


def test_samples_of_all_teams_are_bounded_and_begin_again_each_minute(gateway: Gateway):
    for minute in (5, 6):
        for team in range(200):
            for key in range(40):
                gateway.refuse(limit_exceeded("one"), caller(team, key), minute=minute)
        gateway.recorder.write()
    per_minute = Counter(each.received_us // 60_000_000 for refused in gateway.written() for each in refused.samples)
    assert 2 * MAX_SAMPLES <= per_minute.total() <= 4 * MAX_SAMPLES and max(per_minute.values()) <= MAX_SAMPLES


def test_more_groups_than_are_held_are_written_at_once(gateway: Gateway):
    for number in range(3 * MAX_COUNTS):
        gateway.refuse(limit_exceeded("one"), caller(key=number))
    written = gateway.written()
    assert len(written) >= 3 and sum(each.requests for refused in written for each in refused.counts) == 3 * MAX_COUNTS


def test_without_space_counts_wait_and_those_of_new_groups_are_lost_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    gateway = Gateway(tmp_path)
    append, has_space = gateway.spool.append_refusals, False
    attempts = 0

    def append_if_there_is_space(body: bytes) -> bool:
        nonlocal attempts
        attempts += 1
        return has_space and append(body)

    monkeypatch.setattr(gateway.spool, "append_refusals", append_if_there_is_space)
    for _ in range(2):
        for number in range(MAX_COUNTS + 10):
            gateway.refuse(limit_exceeded("one"), caller(team=number, key=number))
    assert attempts == 1, "a full disk is not tried at each request"
    has_space = True
    [refused] = gateway.written()
    assert sum(each.requests for each in refused.counts) == 2 * MAX_COUNTS and len(refused.samples) <= MAX_SAMPLES
    [logged] = [record for record in caplog.records if "not counted" in record.message]
    assert vars(logged)["requests"] == 20


async def test_a_full_spool_takes_no_refusals_until_it_has_space(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    gateway = Gateway(tmp_path, spool_max_bytes=1)
    spool_exchange(gateway.spool, b"", b"")
    gateway.refuse(NotAllowed("no"), caller())
    assert not gateway.recorder.write() and gateway.written() == []
    await gateway.recorder.stop()
    assert [vars(record)["requests"] for record in caplog.records if "not counted" in record.message] == [1]
    for path in gateway.folder.glob("*.spool"):  # as the writer does
        path.unlink()
    await asyncio.sleep(REFRESH_EVERY_S * 1.1)
    assert [each.requests for refused in gateway.written() for each in refused.counts] == [1]


def test_samples_hold_nothing_of_what_was_written(gateway: Gateway):
    secret = "sk-" + "proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"
    gateway.refuse(InvalidRequest("`messages[0].role` must not be 'Jane Doe'", param="messages[0].role"), caller(), "known")
    gateway.refuse(InvalidRequest("`role` must not be 'Jane Doe'", param="role"), caller(team=2, content="none"), "known")
    gateway.refuse(UnknownModel(f"There is no model {secret}", param="model"), caller(team=3), secret)
    gateway.refuse(UnknownModel("There is no model " + "x" * 9000), caller(team=4), "x" * 9000)
    [refused] = gateway.written()
    first, second, third, fourth = refused.samples
    assert (first.param, first.message, first.model) == ("messages[0].role", None, "known")
    assert (second.param, second.message) == (None, None)
    assert third.message and secret not in third.message + third.model
    assert len(fourth.model) == refusals.MAX_MODEL_CHARS and len(fourth.message or "") == refusals.MAX_MESSAGE_CHARS


def test_refusals_have_segments_of_their_own_which_older_writers_do_not_see(gateway: Gateway):
    gateway.refuse(NotAllowed("no"), caller())
    gateway.written()
    assert len(list(gateway.folder.glob("*.refusals"))) == 1
    for path in gateway.folder.glob("*.spool"):
        reader = SegmentReader(path, 0)
        assert reader.read(10) == []
        reader.close()
