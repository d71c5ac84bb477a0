"""Option `drop` of teams and keys: by commands, over HTTP and in files, what it does for a request, and across versions."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from app.domain.callers import ALL_DETECTORS, Caller, TeamConfig
from app.domain.errors import BadConfiguration
from app.settings import Settings
from app.store.configuration import apply_file, config_file, configuration
from app.store.configuration.snapshot_cache import SnapshotCache
from app.store.keys.key_format import hash_key
from app.store.keys.log import log_path, read_log
from app.store.postgres.database import connect, create_database_engine
from app.store.teams import keys, shown_keys, teams
from app.store.teams.keys import KeyChanges
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ScriptedEngine

CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hello!"}]
FIELDS: Any = {"guided_regex": "a+", "chat_template": "x"}


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


def run_json(service: Service, *arguments: str) -> Any:
    done = service.run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def new_key(service: Service, team: str, *arguments: str) -> str:
    return run_json(service, "keys", "create", "--team", team, *arguments)["key"]


async def post(service: Service, key: str, model: str = "scripted", headers: dict[str, str] | None = None) -> httpx2.Response:
    async with service.client(headers={"authorization": f"Bearer {key}", **(headers or {})}) as caller:
        return await caller.post(CHAT, json={"model": model, "messages": HI, **FIELDS})


# --- a request


@pytest.mark.parametrize(
    ("team_drop", "key_drop", "header"),
    [
        ("all", None, None),
        (None, "all", None),
        ("guided_regex", "chat_template", None),
        ("guided_regex", None, "chat_template"),
    ],
)
async def test_fields_go_that_the_team_the_key_or_the_header_names(
    service: Service, engine: ScriptedEngine, team_drop: str | None, key_drop: str | None, header: str | None
):
    team = f"drops {team_drop} {key_drop} {header}"
    if team_drop:
        run_json(service, "teams", "set", team, "--drop", team_drop)
    key = new_key(service, team, *(("--drop", key_drop) if key_drop else ()))
    answer = await post(service, key, headers={"x-narthex-drop": header} if header else None)
    assert answer.status_code == 200, answer.text
    assert set(engine.requests[-1].body) == {"model", "messages"}
    assert set(answer.headers["x-narthex-dropped"].split(", ")) == set(FIELDS)
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert set(row["dropped"]) == set(FIELDS)


async def test_drop_of_a_team_adds_to_that_of_a_model_and_none_overrides_both(service: Service, engine: ScriptedEngine):
    service.apply("""
        [teams.careful]
        drop = ["guided_regex"]
        [models]
        drops-template = { targets = [{ provider = "first", model = "m" }], drop = ["chat_template"] }
    """)
    key = new_key(service, "careful")
    answer = await post(service, key, "drops-template")
    assert answer.status_code == 200 and set(engine.requests[-1].body) == {"model", "messages"}, answer.text
    refused = await post(service, key)
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "chat_template")
    engine.requests.clear()
    refused = await post(service, key, "drops-template", {"x-narthex-drop": "none"})
    assert refused.status_code == 422 and refused.json()["error"]["param"] in FIELDS
    assert not [each for each in engine.requests if each.body]


async def test_change_of_a_key_or_team_reaches_running_workers_and_leaves_other_keys_alone(service: Service, engine: ScriptedEngine):
    key, other = new_key(service, "changing"), new_key(service, "unchanging")

    async def status() -> int:
        return (await post(service, key)).status_code

    assert await status() == 422
    run_json(service, "keys", "change", key, "--drop", "all")
    assert await status() == 200
    run_json(service, "keys", "change", key, "--drop", "none")
    assert await status() == 422
    run_json(service, "teams", "set", "changing", "--drop", "all")
    assert await status() == 200
    assert (await post(service, other)).status_code == 422


# --- commands, HTTP and files


def test_drop_of_a_key_is_shown_changed_copied_by_rotation_and_removed(service: Service):
    created = run_json(service, "keys", "create", "--team", "shown drops", "--drop", "seed", "--drop", "stop")
    assert created["drop"] == ["seed", "stop"]
    prefix = created["prefix"]
    assert "seed, stop" in service.run("keys", "list", "--team", "shown drops").stdout
    rotated = run_json(service, "keys", "rotate", prefix)

    def listed() -> dict[str, Any]:
        return {each["prefix"]: each["drop"] for each in run_json(service, "keys", "list", "--team", "shown drops")["keys"]}

    assert listed() == {prefix: ["seed", "stop"], rotated["prefix"]: ["seed", "stop"]}
    assert run_json(service, "keys", "change", prefix, "--drop", "all") == {"changed": prefix, "drop": "all"}
    assert run_json(service, "keys", "change", prefix, "--name", "n") == {"changed": prefix, "name": "n"}
    assert listed() == {prefix: "all", rotated["prefix"]: ["seed", "stop"]}
    assert run_json(service, "keys", "change", prefix, "--drop", "none") == {"changed": prefix, "drop": []}
    assert listed()[prefix] == []


EVERY_DETECTOR: Any = {"detectors": list(ALL_DETECTORS), "patterns": {}}
UNRESTRICTED: Any = {"models": None, "routes": None, "networks": None, "fallbacks": "any", "limits": []}


def test_drop_of_a_team_is_set_apart_from_its_content(service: Service):
    assert run_json(service, "teams", "set", "lossy", "--drop", "seed") == {
        "name": "lossy",
        "content": "full",
        "drop": ["seed"],
        "priority": 0,
        "mask": EVERY_DETECTOR,
        "search": False,
        **UNRESTRICTED,
    }
    assert run_json(service, "teams", "set", "lossy", "--content", "none") == {
        "name": "lossy",
        "content": "none",
        "drop": ["seed"],
        "priority": 0,
        "mask": EVERY_DETECTOR,
        "search": False,
        **UNRESTRICTED,
    }
    changed = run_json(service, "teams", "set", "lossy", "--drop", "all")
    content = {"content": "none", "mask": EVERY_DETECTOR, "search": False}
    assert changed == {"name": "lossy", "drop": "all", "priority": 0, **content, **UNRESTRICTED}
    assert any(line.split()[0::6] == ["lossy", "all"] for line in service.run("teams", "list").stdout.splitlines())
    new_key(service, "lossy", "--content", "full")
    (listed,) = [each for each in run_json(service, "teams", "list")["teams"] if each["name"] == "lossy"]
    assert (listed["content"], listed["drop"], listed["keys"]) == ("full", "all", 1)
    shown = service.run("teams", "set", "lossy", "--drop", "none").stdout
    assert shown == "Team lossy: content full, may drop nothing, priority 0, search off.\n"


@pytest.mark.parametrize("command", [("teams", "set", "refused"), ("keys", "create", "--team", "refused")])
def test_what_is_no_name_of_a_field_is_refused_by_commands(service: Service, command: tuple[str, ...]):
    for fields, expected in ((("all", "seed"), "'all' is no name of a field"), (("a,b",), "no comma")):
        done = service.run(*command, *(part for field in fields for part in ("--drop", field)))
        assert done.returncode == 1 and expected in done.stderr, done.stderr
    assert "refused" not in service.run("teams", "list").stdout


def test_models_show_lists_what_may_be_dropped_and_by_whom(service: Service):
    service.apply("""
        [providers]
        shown-drops = { adapter = "openai", base_url = "http://127.0.0.1:9", drop = ["seed"] }
        of-the-fallback = { adapter = "openai", base_url = "http://127.0.0.1:9", drop = ["stop"] }
        of-others = { adapter = "openai", base_url = "http://127.0.0.1:9", drop = "all" }
        [models]
        shown-fallback = { targets = [{ provider = "of-the-fallback", model = "m" }], drop = ["tools"] }
        shown-other = { targets = [{ provider = "of-others", model = "m" }], drop = ["user"] }
        shown-model = { targets = [{ provider = "shown-drops", model = "m" }], fallbacks = ["shown-fallback"], drop = "all" }
        [teams.shown-team]
        drop = ["logit_bias"]
    """)
    keys_by_model = {
        model: run_json(service, "keys", "create", "--team", "shown-team", "--drop", "n", "--model", model)["prefix"]
        for model in ("shown-*", "shown-model", "shown-other", "shown-mod")
    }
    found = run_json(service, "models", "show", "shown-model")
    assert (found["name"], found["targets"][0]["model"], found["fallbacks"], found["drop"]) == (
        "shown-model",
        "m",
        ["shown-fallback"],
        "all",
    )
    of_this_test = [each for each in found["may_drop"] if each["by"] not in ("team", "key") or "shown-team" in (each["name"], each["team"])]
    assert [(each["by"], each["name"], each["fields"]) for each in of_this_test] == [
        ("model", "shown-model", "all"),
        ("fallback", "shown-fallback", ["tools"]),
        ("provider", "shown-drops", ["seed"]),
        ("provider", "of-the-fallback", ["stop"]),
        ("team", "shown-team", ["logit_bias"]),
        ("key", keys_by_model["shown-*"], ["n"]),
        ("key", keys_by_model["shown-model"], ["n"]),
    ]
    assert found["more"] is False
    shown = [line.split() for line in service.run("models", "show", "shown-model").stdout.splitlines()]
    assert ["fallback", "shown-fallback", "tools"] in shown
    assert ["key", keys_by_model["shown-model"], "of", "team", "shown-team", "n"] in shown
    unknown = service.run("models", "show", "nobody")
    assert unknown.returncode == 1 and "There is no model 'nobody'. There are: " in unknown.stderr
    assert service.run("models", "--json", "show", "shown-model").returncode == 2
    assert run_json(service, "models") == run_json(service, "models", "list")


async def test_teams_and_keys_take_and_show_drop_over_http(admin: httpx2.AsyncClient):
    team = "/admin/v1/teams/over%20http"
    changes: Any = (
        ({"drop": ["seed"]}, {"content": "full", "drop": ["seed"]}),
        ({"content": "redacted"}, {"content": "redacted", "drop": ["seed"]}),
        ({"drop": "all"}, {"content": "redacted", "drop": "all"}),
        ({"drop": None, "content": "full"}, {"content": "full", "drop": []}),
    )
    assert (await admin.put(team, json={})).status_code in (200, 201)
    for body, config in changes:
        changed = (await admin.patch(team, json=body, headers={"if-match": "*"})).json()
        assert {name: changed[name] for name in ("name", "priority", "content", "drop")} == {"name": "over http", "priority": 0, **config}
    made = (await admin.post("/admin/v1/keys", json={"team": "over http", "drop": ["seed"]})).json()
    key = f"/admin/v1/keys/{made['prefix']}"
    assert made["drop"] == ["seed"] and (await admin.get(key)).json()["drop"] == ["seed"]
    for change, drop in (("all", "all"), (["stop"], ["stop"]), (None, [])):
        assert (await admin.patch(key, json={"drop": change}, headers={"if-match": "*"})).json()["drop"] == drop
    row = (await admin.get(team)).json()
    assert (row["name"], row["drop"], row["keys"]) == ("over http", [], 1)


@pytest.mark.parametrize(
    ("method", "path", "body", "param", "expected"),
    [
        ("PUT", "/admin/v1/teams/bad", {"drop": "seed"}, "drop", "`drop` may be all, a list."),
        ("PUT", "/admin/v1/teams/bad", {"drop": ["seed", "all"]}, "drop", "'all' is no name of a field"),
        ("PUT", "/admin/v1/teams/bad", {"drop": [1]}, "drop[0]", "Expected text, got an integer"),
        ("POST", "/admin/v1/keys", {"team": "bad", "drop": [""]}, "drop", "1 to 200 printable characters"),
        ("POST", "/admin/v1/keys", {"team": "bad", "drop": [f"f{at}" for at in range(101)]}, "drop", "names 101 fields"),
    ],
)
async def test_bad_drop_is_a_400_that_names_it(
    admin: httpx2.AsyncClient, method: str, path: str, body: Any, param: str | None, expected: str
):
    answer = await admin.request(method, path, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param) and expected in error["message"], error
    assert (await admin.get("/admin/v1/teams/bad")).status_code == 404


async def test_drop_of_a_team_goes_through_apply_and_export(database: str):
    async def apply(content: str) -> str:
        return await apply_file.apply(database, content, prune=False, confirm=lambda _: True, wait_s=0)

    assert (await apply('[teams.legal]\ndrop = ["seed", "seed"]\n[teams.search]\ndrop = "all"\ncontent = "none"')).startswith("Applied")
    exported = await configuration.export(database)
    assert config_file.parse_config_file(exported).teams == {
        "legal": TeamConfig(drop=("seed", "seed")),
        "search": TeamConfig(content="none", drop="all"),
    }
    assert await apply(exported) == "Nothing to change."
    await teams.set_team(database, "legal", drop="all")
    differences: list[str] = []
    await apply_file.apply(database, exported, prune=False, confirm=lambda text: bool(differences.append(text)))
    assert '-drop = "all"' in differences[0] and '+    "seed",' in differences[0]
    assert (await apply("[teams.search]")).startswith("Applied"), "a table without `drop` has none"
    assert config_file.parse_config_file(await configuration.export(database)).teams == {
        "legal": TeamConfig(drop="all"),
        "search": TeamConfig(),
    }


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ('drop = "seed"', 'at `teams.legal.drop`. It is "all", or a list of names of fields'),
        ('drop = ["seed", "all"]', "teams.legal.drop: 'all' is no name of a field"),
        ('drop = ["seed,stop"]', "teams.legal.drop: the name of a field has"),
    ],
)
async def test_bad_drop_of_a_team_in_a_file_is_refused_with_its_place(database: str, toml: str, expected: str):
    with pytest.raises(BadConfiguration) as refused:
        await apply_file.apply(database, f"[teams.legal]\n{toml}", prune=False, confirm=lambda _: True, wait_s=0)
    assert expected in str(refused.value)


# --- across versions


async def test_rows_of_the_version_before_and_changes_that_it_makes_keep_working(database: str):
    """It knows no column `drop`: it inserts rows without one, and leaves the value of others as it is."""
    key = await keys.create_key(database, "old", drop=("seed",))
    await teams.set_team(database, "old", content="full", drop="all")
    connection = await connect(database)
    try:
        await connection.execute("INSERT INTO teams (id, name, content) VALUES (gen_random_uuid(), 'older', 'none')")
        await connection.execute("UPDATE teams SET content = 'redacted' WHERE name = 'old'")
        await connection.execute("UPDATE keys SET name = 'changed'")
    finally:
        await connection.close()
    assert {row.name: (row.content, row.drop) for row in await teams.list_teams(database)} == {
        "old": ("redacted", "all"),
        "older": ("none", ()),
    }
    row = await shown_keys.show_key(database, key)
    assert row is not None and (row.name, row.drop) == ("changed", ("seed",))


async def test_cached_key_of_the_version_before_gets_its_drop_soon_after_the_start(database: str, tmp_path: Path):
    """Its log has no `drop`, although a newer version may have set one meanwhile: the log's version of the keys does not tell."""
    key = await keys.create_key(database, "cached", drop=("seed",))
    await keys.change_key(database, key, KeyChanges(drop=("stop",)))
    await teams.set_team(database, "cached", drop=("seed",))
    settings = Settings(home=tmp_path, database_url=database)
    path = log_path(tmp_path / "directory", "gateway-0")
    engine = create_database_engine(database)
    first = SnapshotCache(settings, engine, "gateway-0")
    await first.start()
    try:
        found = await first.keys.find(key)
        assert found is not None and found.drop == ("seed", "stop")
    finally:
        await first.stop()
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        if isinstance(line, list) and line[1] is not None:
            del line[1]["drop"]
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    assert read_log(path).callers[hash_key(key)].drop == () and read_log(path).version is not None
    second = SnapshotCache(settings, engine, "gateway-0")
    await second.start()
    try:

        async def has_drop() -> bool:
            caller = second.keys.get_cached(hash_key(key)) or await second.keys.find(key)
            return caller is not None and caller.drop == ("seed", "stop")

        await wait_until(has_drop)
    finally:
        await second.stop()
        await engine.dispose()


def test_key_log_is_read_by_the_version_before():
    older_fields = [field for field in msgspec.structs.fields(Caller) if field.name != "drop"]
    older_caller = msgspec.defstruct(
        "OlderCaller", [(each.name, each.type) if each.required else (each.name, each.type, each.default) for each in older_fields]
    )
    logged = Caller("k", "t", "team", "full", prefix="nx-0123456789ab", drop=("seed",))
    line = msgspec.json.encode(("00", logged))
    hash, caller = msgspec.json.decode(line, type=tuple[str, older_caller])
    assert hash == "00" and {**msgspec.structs.asdict(caller), "drop": ("seed",)} == msgspec.structs.asdict(logged)
