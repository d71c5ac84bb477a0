"""Snapshots: read line by line and written in parts, they are what they were when they were read and written in one go."""

import hashlib
from pathlib import Path

import msgspec

from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.process.thread_steps import run_in_steps
from app.store.configuration import saved_snapshot, snapshots
from app.store.configuration.snapshots import StoredConfiguration

MANY = 250  # more than are encoded at once
NAMES = [f"{sign} {number}" for number in range(MANY // 5) for sign in ("a", "Z", "é", "€", "𝄞")]


def large_snapshot() -> Snapshot:
    return snapshots.build_snapshot(
        7,
        {name: ProviderConfig("openai", f"http://{number}", options={"z": 1, "a": [name]}) for number, name in enumerate(NAMES)},
        {name: ModelConfig((Target(name, "x", weight=1.0),), (NAMES[0],)) for name in NAMES},
        [Limit(name, {"team": "each", "key": name}, "requests", 5.0, "minute") for name in NAMES],
        [Price(name, "x", input=0.1, output=2.5) for name in NAMES],
        {name: f"encrypted {name}" for name in NAMES},
        {name: number for number, name in enumerate(NAMES[1:], 1_700_000_000_000)},
    )


def stored(snapshot: Snapshot) -> StoredConfiguration:
    def lines(records: object) -> str:
        return "\n".join(msgspec.json.encode(record).decode() for record in msgspec.to_builtins(records))

    named = (list(each.items()) for each in (snapshot.providers, snapshot.models, snapshot.credentials))
    providers, models, credentials = map(lines, named)
    limits = lines([(limit, snapshot.limits_since.get(limit.name)) for limit in snapshot.limits])
    nodes, drained = lines(snapshot.nodes), lines(sorted(snapshot.drained))
    return StoredConfiguration(snapshot.version, providers, models, limits, lines(snapshot.prices), credentials, nodes, drained)


def test_hash_of_a_large_configuration_is_that_of_one_document():
    snapshot = large_snapshot()
    sections = ("providers", "models", "limits", "prices")
    document = msgspec.json.encode({name: getattr(snapshot, name) for name in sections}, order="sorted")
    assert snapshot.hash == hashlib.sha256(document).hexdigest()[:32]


async def test_snapshot_decoded_in_steps_equals_the_stored_one():
    snapshot = large_snapshot()
    assert await run_in_steps(lambda: snapshots.decode(stored(snapshot))) == snapshot
    empty = snapshots.build_snapshot(0, {}, {})
    assert snapshots.decode(stored(empty), snapshot) == empty


def test_records_that_did_not_change_are_the_same_objects():
    before = large_snapshot()
    changed = msgspec.structs.replace(before.limits[3], amount=6.0)
    after = snapshots.decode(
        stored(msgspec.structs.replace(before, version=8, limits=(*before.limits[:3], changed, *before.limits[4:]))), before
    )
    assert after.version == 8 and after.hash != before.hash and after.limits[3] == changed
    assert [new is old for new, old in zip(after.limits, before.limits, strict=True)] == [at != 3 for at in range(len(NAMES))]
    assert all(after.models[name] is before.models[name] and after.providers[name] is before.providers[name] for name in NAMES)


def test_large_snapshot_saved_to_disk_is_loaded_again(tmp_path: Path):
    snapshot = large_snapshot()
    saved_snapshot.save_to_disk(snapshot, tmp_path / "snapshot.json")
    assert saved_snapshot.load_from_disk(tmp_path / "snapshot.json") == snapshot
