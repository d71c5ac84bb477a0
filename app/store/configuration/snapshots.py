"""Snapshots: the configuration in Postgres as one immutable record in memory, and on disk for a start without Postgres."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct
from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.callers import TeamLimit
from app.domain.experiments import Experiment, MetricConfig
from app.domain.functions import FunctionConfig
from app.domain.limits import CountedAs, Limit, LimitOverride
from app.domain.prices import Price
from app.domain.routing import ModelConfig, Node, ProviderConfig
from app.domain.snapshot import Snapshot
from app.process.thread_steps import in_steps
from app.store.configuration.experiments.versions import versions_in_force
from app.store.configuration.validation.paths import price_key
from app.store.postgres import tables

T = TypeVar("T")


EMPTY = Snapshot(version=0, hash="", providers={}, models={})
CHANNEL = "narthex_directory"
_NO_CREDENTIALS: Mapping[str, str] = {}
_NO_TIMES: Mapping[str, int] = {}
_NO_FUNCTIONS: Mapping[str, FunctionConfig] = {}
_NO_METRICS: Mapping[str, MetricConfig] = {}
_NO_EXPERIMENTS: Mapping[str, Experiment] = {}
_NO_TEAMS: Mapping[str, str] = {}
_AS_NAMED = CountedAs()
_NO_TEAM_LIMITS: Mapping[str, tuple[TeamLimit, ...]] = {}
_RECORDS_AT_ONCE = 100

# A table as one text, a line for each row: JSON as Postgres writes it has no line break. Rows one by one cost the event loop ten times as
# much, and what is in them is decoded elsewhere.
_STORED_LINES = text("""
    SELECT (SELECT string_agg(jsonb_build_array(name, config)::text, E'\\n' ORDER BY name) FROM providers) AS providers,
           (SELECT string_agg(jsonb_build_array(name, config)::text, E'\\n' ORDER BY name) FROM models) AS models,
           (SELECT string_agg(jsonb_build_array(config, floor(extract(epoch FROM counted_since) * 1000)::bigint)::text, E'\\n'
                              ORDER BY position, name) FROM limits) AS limits,
           (SELECT string_agg(config::text, E'\\n') FROM prices) AS prices,
           (SELECT string_agg(jsonb_build_array(name, encrypted)::text, E'\\n') FROM credentials) AS credentials,
           (SELECT string_agg(jsonb_build_object('provider', provider, 'address', address, 'models', models, 'speed', speed)::text, E'\\n'
                              ORDER BY provider, registered_at, address) FROM nodes) AS nodes,
           (SELECT string_agg(jsonb_build_array(provider, address)::text, E'\\n') FROM drained_endpoints) AS drained,
           (SELECT string_agg(jsonb_build_array(name, floor(extract(epoch FROM created_at))::bigint)::text, E'\\n')
                FROM (SELECT name, created_at FROM models UNION ALL SELECT name, created_at FROM functions) AS named) AS models_created,
           (SELECT string_agg(jsonb_build_object('id', id, 'limit', limit_name, 'subject', subject, 'amount', amount, 'counts',
                                                 jsonb_build_array(resource, per), 'until_ms',
                                                 floor(extract(epoch FROM ends_at) * 1000)::bigint)::text, E'\\n' ORDER BY id)
                FROM limit_overrides WHERE ended_at IS NULL AND ends_at > now()) AS overrides,
           (SELECT string_agg(jsonb_build_array(name, config)::text, E'\\n' ORDER BY name) FROM functions) AS functions,
           (SELECT string_agg(jsonb_build_array(name, config)::text, E'\\n' ORDER BY name) FROM metrics) AS metrics,
           (SELECT string_agg(jsonb_build_array(owner, definition - 'arms' || jsonb_build_object(
                                  'name', name, 'salt', salt, 'versions', (
                                      SELECT jsonb_agg(jsonb_build_object(
                                                 'number', number, 'arms', arms, 'enrolment', enrolment,
                                                 'effective_ms', ceil(extract(epoch FROM effective_at) * 1000)::bigint) ORDER BY number)
                                          FROM experiment_versions WHERE experiment_id = experiments.id)))::text, E'\\n' ORDER BY owner)
                FROM experiments WHERE started_at IS NOT NULL AND ended_at IS NULL) AS experiments,
           (SELECT string_agg(jsonb_build_array(name, id)::text, E'\\n') FROM teams WHERE name IN (
                SELECT config -> 'shadow' ->> 'team' FROM models UNION ALL SELECT config -> 'shadow' ->> 'team' FROM functions))
               AS shadow_teams,
           (SELECT string_agg(jsonb_build_array('nx-' || prefix, 'nx-' || counts_as)::text, E'\\n') FROM keys
                WHERE counts_as IS NOT NULL AND prefix IN (SELECT substr(config -> 'scope' ->> 'key', 4) FROM limits)) AS counted_keys,
           (SELECT string_agg(jsonb_build_array(name, counts_as)::text, E'\\n') FROM limits WHERE counts_as IS NOT NULL) AS counted_limits,
           (SELECT string_agg(jsonb_build_array(name, restrictions -> 'limits')::text, E'\\n' ORDER BY name) FROM teams
                WHERE restrictions ? 'limits') AS team_limits,
           floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint AS read_ms
""")

# Versions are also of nodes and credentials: of these, what counts is the one before that changed what is hashed.
_REPORT_SNAPSHOT = text("""
    INSERT INTO snapshots (hash, version)
    SELECT :hash, coalesce((SELECT max(version) FROM configuration_versions WHERE version <= :version), 0)
    ON CONFLICT (hash) DO UPDATE SET version = excluded.version, document = NULL
    WHERE snapshots.version IS NULL OR snapshots.version < excluded.version
""")


class StoredConfiguration(Struct, frozen=True):
    """The configuration as Postgres has it: of each table a text with a line of JSON for each row."""

    version: int
    providers: str
    models: str
    limits: str
    prices: str
    credentials: str
    nodes: str
    drained: str
    models_created: str = ""
    overrides: str = ""
    functions: str = ""
    metrics: str = ""
    experiments: str = ""
    shadow_teams: str = ""
    counted_keys: str = ""
    counted_limits: str = ""
    team_limits: str = ""
    read_ms: int = 0


async def read_version(connection: AsyncConnection) -> int:
    """The current version of the configuration; cheap enough to query often. 0: nothing was ever configured."""
    return await connection.scalar(select(tables.snapshot_version.c.version)) or 0


async def read_snapshot(connection: AsyncConnection) -> Snapshot:
    """The current configuration. See read_stored() and decode()."""
    return decode(await read_stored(connection))


async def read_stored(connection: AsyncConnection) -> StoredConfiguration:
    """The current configuration, not decoded. The connection must be in a REPEATABLE READ transaction for its parts to be consistent."""
    version = await read_version(connection)
    row = (await connection.execute(_STORED_LINES)).one()
    *sections, read_ms = row
    return StoredConfiguration(version, *(lines or "" for lines in sections), read_ms=read_ms)


def decode(stored: StoredConfiguration, previous: Snapshot = EMPTY) -> Snapshot:
    """The snapshot of a stored configuration. Records that are as in `previous` are the same objects. In steps.

    Raises msgspec.ValidationError for what a newer version has written.
    """
    limits_before = {limit.name: limit for limit in in_steps(previous.limits)}
    limits: list[Limit] = []
    limits_since: dict[str, int] = {}
    for limit, since_ms in cast("Iterator[tuple[Limit, int | None]]", _decode_lines(stored.limits, cast(Any, tuple[Limit, int | None]))):
        limits.append(_same_or_new(limits_before.get(limit.name), limit))
        if since_ms is not None:
            limits_since[limit.name] = since_ms
    prices_before = {price_key(price): price for price in in_steps(previous.prices)}
    prices = [_same_or_new(prices_before.get(price_key(price)), price) for price in _decode_lines(stored.prices, Price)]
    return build_snapshot(
        stored.version,
        _decode_named(stored.providers, ProviderConfig, previous.providers),
        _decode_named(stored.models, ModelConfig, previous.models),
        limits,
        prices,
        _decode_named(stored.credentials, str, previous.credentials),
        limits_since,
        tuple(_decode_lines(stored.nodes, Node)),
        frozenset(_decode_lines(stored.drained, cast(Any, tuple[str, str]))),
        dict(cast("Iterator[tuple[str, int]]", _decode_lines(stored.models_created, cast(Any, tuple[str, int])))),
        tuple(_decode_lines(stored.overrides, LimitOverride)),
        _decode_named(stored.functions, FunctionConfig, previous.functions),
        _decode_named(stored.metrics, MetricConfig, previous.metrics),
        _decode_experiments(stored.experiments, previous.experiments),
        stored.read_ms,
        _decode_names(stored.shadow_teams),
        CountedAs(_decode_names(stored.counted_keys), _decode_names(stored.counted_limits)),
        _decode_named(stored.team_limits, cast(Any, tuple[TeamLimit, ...]), previous.team_limits),
    )


def _decode_names(lines: str) -> dict[str, str]:
    return dict(cast("Iterator[tuple[str, str]]", _decode_lines(lines, cast(Any, tuple[str, str]))))


def _decode_named(lines: str, kind: type[T], before: Mapping[str, T]) -> dict[str, T]:
    pairs = cast("Iterator[tuple[str, T]]", _decode_lines(lines, cast(Any, tuple[str, kind])))
    return {name: _same_or_new(before.get(name), record) for name, record in pairs}


def _decode_experiments(lines: str, before: Mapping[str, Experiment]) -> dict[str, Experiment]:
    pairs = cast("Iterator[tuple[str, Experiment]]", _decode_lines(lines, cast(Any, tuple[str, Experiment])))
    in_force = ((owner, msgspec.structs.replace(each, versions=versions_in_force(each.versions))) for owner, each in pairs)
    return {owner: _same_or_new(before.get(owner), each) for owner, each in in_force}


def _decode_lines(lines: str, kind: type[T]) -> Iterator[T]:
    decoder = msgspec.json.Decoder(kind)
    for line in in_steps(lines.split("\n") if lines else ()):
        yield decoder.decode(line)


def _same_or_new(before: T | None, record: T) -> T:
    return before if before is not None and before == record else record


async def read_providers(connection: AsyncConnection) -> Mapping[str, ProviderConfig]:
    rows = await connection.execute(select(tables.providers.c.name, tables.providers.c.config).order_by(tables.providers.c.name))
    return {row.name: msgspec.convert(row.config, ProviderConfig) for row in rows}


def build_snapshot(
    version: int,
    providers: Mapping[str, ProviderConfig],
    models: Mapping[str, ModelConfig],
    limits: Sequence[Limit] = (),
    prices: Sequence[Price] = (),
    credentials: Mapping[str, str] = _NO_CREDENTIALS,
    limits_since: Mapping[str, int] = _NO_TIMES,
    nodes: tuple[Node, ...] = (),
    drained: frozenset[tuple[str, str]] = frozenset(),
    models_created: Mapping[str, int] = _NO_TIMES,
    overrides: tuple[LimitOverride, ...] = (),
    functions: Mapping[str, FunctionConfig] = _NO_FUNCTIONS,
    metrics: Mapping[str, MetricConfig] = _NO_METRICS,
    experiments: Mapping[str, Experiment] = _NO_EXPERIMENTS,
    read_ms: int = 0,
    shadow_teams: Mapping[str, str] = _NO_TEAMS,
    counted_as: CountedAs = _AS_NAMED,
    team_limits: Mapping[str, tuple[TeamLimit, ...]] = _NO_TEAM_LIMITS,
) -> Snapshot:
    sorted_prices = tuple(sorted(prices, key=price_key))
    operations = (nodes, drained, models_created, overrides)
    of_file = (providers, models, tuple(limits), sorted_prices)
    later = (functions, metrics, experiments, read_ms, shadow_teams, counted_as, team_limits)
    unhashed = Snapshot(version, "", *of_file, credentials, limits_since, *operations, *later)
    return msgspec.structs.replace(unhashed, hash=hashlib.sha256(_hashed_content(unhashed)).hexdigest()[:32])


def _hashed_content(snapshot: Snapshot) -> bytes:
    """The content that the hash covers: everything but stored credentials, which change no response, the age of limits, and operations.

    Of experiments it has what the configuration says. Their versions, which come of it, have tables of their own that keep all, and every
    inference names its version: in the hash they would make each version another configuration.

    Sections that came with later versions are included only if they are not empty, so that earlier hashes stay true.
    """
    later_sections = {
        "limits": snapshot.limits,
        "prices": snapshot.prices,
        "functions": snapshot.functions,
        "metrics": snapshot.metrics,
    }
    content = {"providers": snapshot.providers, "models": snapshot.models, **{name: each for name, each in later_sections.items() if each}}
    return encode_sections({name: content[name] for name in sorted(content)})


def encode_sections(sections: Mapping[str, Any]) -> bytes:
    """The sections as one JSON object, in their order; what is in them is sorted by name. In steps."""
    return b"{%b}" % b",".join(msgspec.json.encode(name) + b":" + _encode_section(section) for name, section in sections.items())


def _encode_section(section: Any) -> bytes:
    if isinstance(section, dict):
        records = cast("dict[str, Any]", section)
        parts = ({name: records[name] for name in names} for names in _parts(sorted(records)))
        return b"{%b}" % _encode_parts(parts)
    if isinstance(section, tuple):
        return b"[%b]" % _encode_parts(_parts(cast("tuple[Any, ...]", section)))
    return msgspec.json.encode(section)


def _encode_parts(parts: Iterable[Any]) -> bytes:
    return b",".join(msgspec.json.encode(part, order="sorted")[1:-1] for part in in_steps(parts))


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _RECORDS_AT_ONCE] for start in range(0, len(items), _RECORDS_AT_ONCE))


async def publish_version(connection: AsyncConnection) -> int:
    """Increment the version, in the transaction of a change, and notify the workers at its commit."""
    counter = insert(tables.snapshot_version).values(id=1, version=1)
    incremented = counter.on_conflict_do_update(index_elements=["id"], set_={"version": tables.snapshot_version.c.version + 1})
    version = (await connection.execute(incremented.returning(tables.snapshot_version.c.version))).scalar_one()
    await connection.execute(text("SELECT pg_notify(:channel, '')"), {"channel": CHANNEL})
    return version


async def report_snapshot(connection: AsyncConnection, snapshot: Snapshot) -> None:
    """Name the hash that inferences carry in Postgres: which version of the history it is, of several the newest.

    `snapshot` must be what Postgres has, or had, as its version. What it consists of is then read from the history.
    """
    await connection.execute(_REPORT_SNAPSHOT, {"hash": snapshot.hash, "version": snapshot.version})
