"""The configuration file: what is written is read back unchanged, errors name the entry, and the hash covers all of it."""

from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from app.domain.callers import ContentPolicy, DroppableFields, TeamConfig
from app.domain.errors import BadConfiguration
from app.domain.limits import Limit, Period, Resource
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.store.configuration import saved_snapshot, snapshots
from app.store.configuration.config_file import parse_config_file, write_file

NAMES = some.text(some.characters(codec="utf-8"), min_size=1, max_size=12)
AMOUNTS = some.integers(1, 2**53).map(float) | some.floats(1e-6, 1e9)
SCOPES = some.dictionaries(some.sampled_from(["team", "model"]) | NAMES.map(lambda name: f"tag:{name}"), NAMES, min_size=1, max_size=3)
LIMITS = some.builds(
    Limit,
    name=NAMES,
    scope=SCOPES | some.just({"all": "each"}) | some.just({"key": "nx-0123456789ab"}),
    resource=some.sampled_from(get_args(Resource)),
    amount=AMOUNTS,
    per=some.sampled_from([None, *get_args(Period)]),
    on_outage=some.sampled_from(["local", "refuse"]),
    after_loss=some.sampled_from(["rebuild", "spent", "empty"]),
    dry_run=some.booleans(),
    time_zone=some.sampled_from(["UTC", "Europe/Berlin"]),
)
PRICES = some.builds(
    Price,
    provider=NAMES,
    model=NAMES,
    input=some.floats(0, 1e6),
    output=some.floats(0, 1e6),
    cached_input=some.none() | some.floats(0, 1e6),
    since=some.none() | some.dates().map(str),
    source=some.none() | NAMES,
)
TEAMS = some.dictionaries(NAMES, some.builds(TeamConfig, content=some.sampled_from(get_args(ContentPolicy))), max_size=3)
PROVIDERS = {"p": ProviderConfig("openai", options={"stream": "both"})}
MODELS = {"m": ModelConfig(targets=(Target("p", "x"),), output_tokens=7)}


@given(
    some.lists(LIMITS, max_size=4, unique_by=lambda limit: limit.name),
    some.lists(PRICES, max_size=4, unique_by=snapshots.price_key),
    TEAMS,
)
def test_config_file_round_trips(limits: list[Limit], prices: list[Price], teams: dict[str, TeamConfig]):
    snapshot = snapshots.build_snapshot(3, PROVIDERS, MODELS, limits, prices)
    file = parse_config_file(write_file(snapshot, teams))
    again = snapshots.build_snapshot(3, file.providers or {}, file.models or {}, file.limits or (), file.prices or ())
    assert again == snapshot and (file.teams or {}) == teams


def test_limit_is_written_in_readable_toml():
    limit = Limit(name="per-key requests", scope={"key": "each"}, resource="requests", amount=600, per="minute")
    written = write_file(snapshots.build_snapshot(1, {}, {}, [limit]), {})
    assert written == (
        '[[limits]]\nname = "per-key requests"\nscope = { key = "each" }\nresource = "requests"\namount = 600\nper = "minute"\n'
    )


def test_limit_scope_accepts_a_key_without_its_prefix_and_the_string_all():
    file = parse_config_file("""
        [[limits]]
        name = "a"
        scope = { key = "0123456789ab" }
        resource = "requests"
        amount = 1
        per = "second"
        [[limits]]
        name = "b"
        scope = "all"
        resource = "concurrency"
        amount = 1
    """)
    assert file.limits and [limit.scope for limit in file.limits] == [{"key": "nx-0123456789ab"}, {"all": "each"}]


def test_price_since_may_be_a_toml_date():
    file = parse_config_file('[[prices]]\nprovider = "p"\nmodel = "x"\ninput = 1\noutput = 2.5\nsince = 2026-11-01')
    assert file.prices == (Price("p", "x", input=1.0, output=2.5, since="2026-11-01"),)


def test_empty_section_differs_from_a_missing_section():
    file = parse_config_file("limits = []\n[models]")
    assert (file.limits, file.prices, file.models, file.providers) == ((), None, {}, None)


LIMIT = '[[limits]]\nname = "r"\nscope = { key = "each" }\nresource = "requests"\namount = 1\nper = "day"\n'
PRICE = '[[prices]]\nprovider = "p"\nmodel = "x"\ninput = 1\noutput = 1\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = " + "1" * 5000, "not TOML: Exceeds the limit"),
        ("a = " + "[" * 5000, "nested too deeply"),
        ("a" + ".a" * 50_000 + " = 1", "too many dots in one line"),
        (("a" + ".a" * 500 + " = 1\n") * 1_000, "or in several long ones"),
        ("[limits]", "`limits` is a list: each entry begins with [[limits]]"),
        ("[prices.x]", "`prices` is a list"),
        ("limits = 5", "Expected a list or null, got an integer at `limits`"),
        ("limits = [5]", "Expected a table at `limits[0]`"),
        (
            LIMIT.replace('"requests"', '"reqs"'),
            'at `limits["r"].resource`. It may be requests, input_tokens, output_tokens, tokens, cost_usd, concurrency.',
        ),
        (LIMIT.replace('"day"', '"year"'), 'at `limits["r"].per`. It may be second, minute, hour, day, week, month.'),
        (LIMIT + 'on_outage = "allow"', "It may be local, refuse."),
        (LIMIT + 'after_loss = "full"', "It may be rebuild, spent, empty."),
        (LIMIT.replace("amount = 1\n", ""), 'missing required field `amount` at `limits["r"]`'),
        (LIMIT.replace("amount = 1\n", 'amount = "1"\n'), 'at `limits["r"].amount`'),
        (LIMIT.replace('name = "r"\n', ""), "missing required field `name` at `limits[0]`"),
        (LIMIT + "ammount = 1", "unknown field `ammount`"),
        (LIMIT.replace('{ key = "each" }', '"key"'), 'Expected an object, got text at `limits["r"].scope`'),
        (LIMIT + LIMIT, 'limits["r"] appears twice: limits[0] and limits[1]'),
        (PRICE + PRICE, "appears twice: prices[0] and prices[1]"),
        (PRICE + "since = 2026-01-01\n" + PRICE + 'since = "20260101"', "appears twice"),
        (PRICE + "since = 2026-01-01T00:00:00", "got a time in ISO 8601, such as 2026-11-27T09:30:00Z at `prices[0].since`"),
        ('[teams.t]\ncontent = "some"', "at `teams.t.content`. It may be full, masked, redacted, none."),
        ('[models.m]\ntargets = []\nfallback_on = { a = ["luck"] }', "It may be failure, unsupported, context_length,"),
        (
            '[functions.f.variants]\ngood = { model = "m" }\nbad = { model = "m", temprature = 1 }',
            "unknown field `temprature` at `functions.f.variants.bad`. The fields are: model, ",
        ),
        ("[functions.f.variants.v]\nmodel = 5", "Expected text, got an integer at `functions.f.variants.v.model`"),
        ("[teams.t]\nkeys = 5", "unknown field `keys` at `teams.t`"),
        (
            '[models.m]\ntargets = []\ndrop = "seed"',
            'at `models.m.drop`. It is "all", or a list of names of fields, such as ["logit_bias"].',
        ),
        ("[models.m]\ntargets = []\ndrop = true", 'got true or false at `models.m.drop`. It is "all", or a list of names of fields'),
        ('[providers.p]\nadapter = "openai"\ndrop = [5]', 'got an integer at `providers.p.drop[0]`. It is "all", or a list of names'),
        ('[providers.p]\nadapter = "openai"\ndrop = { seed = true }', "got an object at `providers.p.drop`. It is"),
    ],
)
def test_invalid_config_error_names_the_place_and_the_allowed_values(content: str, message: str):
    with pytest.raises(BadConfiguration) as caught:
        parse_config_file(content)
    assert message in str(caught.value)


def test_snapshot_hash_covers_all_content_and_not_the_version():
    limit = Limit(name="a", scope={"key": "each"}, resource="requests", amount=1, per="day")
    price = Price("p", "x", input=1.0, output=2.0)
    plain = snapshots.build_snapshot(1, PROVIDERS, MODELS)
    others = [
        snapshots.build_snapshot(1, PROVIDERS, MODELS, [limit]),
        snapshots.build_snapshot(1, PROVIDERS, MODELS, [], [price]),
        snapshots.build_snapshot(1, PROVIDERS, MODELS, [msgspec.structs.replace(limit, amount=2)]),
        snapshots.build_snapshot(1, PROVIDERS, MODELS, [], [msgspec.structs.replace(price, since="2026-01-01")]),
    ]
    assert len({plain.hash, *(each.hash for each in others)}) == 5
    assert snapshots.build_snapshot(9, PROVIDERS, MODELS).hash == plain.hash


@pytest.mark.parametrize("drop", ["all", ("logit_bias", "messages[0].name"), ()])
def test_drop_is_written_and_read_back_and_absent_where_it_names_nothing(drop: DroppableFields):
    providers, models = {"p": ProviderConfig("openai", drop=drop)}, {"m": ModelConfig((Target("p", "x"),), drop=drop)}
    snapshot = snapshots.build_snapshot(1, providers, models)
    written = write_file(snapshot, {})
    file = parse_config_file(written)
    assert (file.providers, file.models) == (providers, models)
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot) == snapshot
    plain = snapshots.build_snapshot(1, {"p": ProviderConfig("openai")}, {"m": ModelConfig((Target("p", "x"),))})
    assert ("drop" in written, snapshot.hash != plain.hash) == (drop != (), drop != ())


def test_snapshot_from_before_limits_loads_with_the_same_hash(tmp_path: Path):
    models = {"m": {"targets": [{"provider": "p", "model": "x"}]}}
    stored = {"version": 4, "hash": "a5b1b80be43bd565a1e79dd7cfface7f", "providers": {"p": {"adapter": "openai"}}, "models": models}
    (tmp_path / "snapshot.json").write_bytes(msgspec.json.encode(stored))
    loaded = saved_snapshot.load_from_disk(tmp_path / "snapshot.json")
    assert loaded is not None and (loaded.limits, loaded.prices) == ((), ())
    assert snapshots.build_snapshot(4, loaded.providers, loaded.models) == loaded
    saved_snapshot.save_to_disk(loaded, tmp_path / "snapshot.json")
    assert saved_snapshot.load_from_disk(tmp_path / "snapshot.json") == loaded


@given(some.lists(LIMITS, max_size=3), some.lists(PRICES, max_size=3, unique_by=snapshots.price_key))
def test_snapshot_round_trips_through_json(limits: list[Limit], prices: list[Price]):
    snapshot = snapshots.build_snapshot(1, PROVIDERS, MODELS, limits, prices)
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot) == snapshot
