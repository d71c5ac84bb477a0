"""The configuration as a whole over the admin API and the command line: export, apply, versions, restore, and that they all agree."""

import asyncio
import json
import random
import tomllib
import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

import httpx2
import msgspec
import pytest

from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig
from app.store.configuration.config_file import parse_config_file
from tests.support.processes.service import Service

CONFIGURATION = "/admin/v1/configuration"
VERSIONS = f"{CONFIGURATION}/versions"


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


async def ok(response: httpx2.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


def match(response: httpx2.Response) -> Mapping[str, str]:
    assert response.is_success, response.text
    return {"if-match": response.headers["etag"]}


def provider_file(name: str, port: int) -> str:
    return f'[providers.{name}]\nadapter = "openai"\nbase_url = "http://127.0.0.1:{port}"\n'


async def test_a_file_is_applied_only_to_the_state_that_was_seen(admin: httpx2.AsyncClient) -> None:
    name = unique("provider")
    before = await admin.get(CONFIGURATION)
    assert before.headers["content-type"].startswith("application/toml") and "sandbox" in tomllib.loads(before.text)["providers"]
    missing = await ok(await admin.post(CONFIGURATION, content=provider_file(name, 1)), 428)
    assert before.headers["etag"] in missing["error"]["message"]

    tried = await admin.post(CONFIGURATION, params={"dry_run": "true"}, content=provider_file(name, 1), headers=match(before))
    assert [(each["action"], each["resource"], each["name"]) for each in (await ok(tried))["changes"]] == [("create", "provider", name)]
    assert (await admin.get(CONFIGURATION)).text == before.text

    applied = await admin.post(CONFIGURATION, content=provider_file(name, 1), headers=match(before))
    assert (await ok(applied))["changed"] == {"providers": 1} and applied.headers["etag"] == f'"{applied.json()["version"]}"'
    await ok(await admin.post(CONFIGURATION, content=provider_file(name, 2), headers=match(before)), 412)
    again = await admin.post(CONFIGURATION, content=provider_file(name, 1), headers=match(applied))
    assert await ok(again) == {"version": applied.json()["version"], "changed": {}, "warnings": []}
    exported = await admin.get(CONFIGURATION)
    assert tomllib.loads(exported.text)["providers"][name]["base_url"] == "http://127.0.0.1:1" and match(exported) == match(applied)
    removed = await admin.post(CONFIGURATION, params={"prune": "true"}, content=before.text, headers=match(exported))
    assert (await ok(removed))["changed"] == {"providers": 1} and (await admin.get(CONFIGURATION)).text == before.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x", "The file is not TOML"),
        (b"\xff", "UTF-8"),
        ("[provider.x]", "unknown field `provider`. The fields are: "),
        ("[models.m]\ntargets = []", "models.m.targets is empty"),
        ('[models.m]\ntargets = [{provider = "none", model = "m"}]', "models.m.targets[0].provider: there is no provider 'none'"),
        ('[models.m]\ntargets = []\ncapabilities = ["sing"]', "`models.m.capabilities[0]`. It may be chat, tools"),
        ("[models.m]\ntargets = []\nretries = '5'", "Expected an integer or null, got text at `models.m.retries`"),
    ],
)
async def test_what_is_wrong_of_a_file_is_named_and_nothing_is_changed(
    admin: httpx2.AsyncClient, content: str | bytes, message: str
) -> None:
    before = await admin.get(CONFIGURATION)
    refused = await ok(await admin.post(CONFIGURATION, content=content, headers={"if-match": "*"}), 400)
    assert message in refused["error"]["message"]
    assert match(await admin.get(CONFIGURATION)) == match(before)


async def test_an_older_version_is_restored_as_a_new_one_that_says_what_it_left(admin: httpx2.AsyncClient, service: Service) -> None:
    provider, team = unique("provider"), unique("team")
    before = await admin.get(CONFIGURATION)
    old = before.headers["etag"].strip('"')
    await ok(await admin.put(f"/admin/v1/providers/{provider}", json={"adapter": "openai", "base_url": "http://127.0.0.1:9"}), 201)
    key = (await ok(await admin.post("/admin/v1/keys", json={"team": team, "budget": {"amount_usd": 5}}), 201))["prefix"]
    await ok(await admin.delete(f"/admin/v1/keys/{key}"))
    await ok(await admin.put(f"/admin/v1/credentials/{unique('secret')}", json={"value": "x"}))
    now = await admin.get(CONFIGURATION)

    path = f"{VERSIONS}/{old}/restore"
    tried = await ok(await admin.post(path, params={"dry_run": "true"}, headers=match(now)))
    assert (provider, f"roll back to version {old}") in [(each["name"], each["action"]) for each in tried["changes"]]
    await ok(await admin.post(path, headers=match(before)), 412)
    restored = await ok(await admin.post(path, headers=match(now)))
    assert restored["changed"] == {"providers": 1} and any(team in each for each in restored["left"])
    assert any(each.startswith("Kept") and key in each for each in restored["left"])
    assert any("'credential'" in each for each in restored["left"]) and any("'key'" in each for each in restored["left"])
    assert set(tried["warnings"]) >= set(restored["left"])
    shown = await ok(await admin.get(f"/admin/v1/keys/{key}"))
    assert shown["state"] == "revoked" and [limit["amount"] for limit in shown["limits"]] == [5]
    await ok(await admin.get(f"/admin/v1/teams/{team}"))
    version = await ok(await admin.get(f"{VERSIONS}/{restored['version']}"))
    assert version["restores"] == int(old) and (provider, None) in [(each["name"], each["after"]) for each in version["data"]]
    listed = await ok(await admin.get(VERSIONS, params={"limit": 1}))
    assert [each["version"] for each in listed["data"]] == [restored["version"]] and listed["next"]
    for unknown in (str(10**18), "x"):
        await ok(await admin.post(f"{VERSIONS}/{unknown}/restore", headers={"if-match": "*"}), 404)
        await ok(await admin.get(f"{VERSIONS}/{unknown}"), 404)

    history = service.run("history", str(restored["version"])).stdout
    assert f"providers {provider}: removed" in history and f"restored version {old}" in history
    done = service.run("rollback", str(restored["version"] - 1), "--yes")
    assert f"Restored version {restored['version'] - 1} as version" in done.stdout and f"+[providers.{provider}]" in done.stdout, (
        done.stderr
    )
    await ok(await admin.get(f"/admin/v1/providers/{provider}"))
    event = (await ok(await admin.get("/admin/v1/audit", params={"name": provider, "limit": 1})))["data"][0]
    assert (event["via"], event["actor"]["kind"]) == ("cli", "cli")
    await ok(await admin.post(path, headers={"if-match": "*"}))


async def test_of_editors_at_once_one_changes_an_entry_and_none_loses_another(admin: httpx2.AsyncClient) -> None:
    names = [unique("provider") for _ in range(6)]
    body = {"adapter": "openai", "base_url": "http://127.0.0.1:9"}
    created = await asyncio.gather(*(admin.put(f"/admin/v1/providers/{name}", json=body) for name in names))
    assert [each.status_code for each in created] == [201] * 6
    exported = await admin.get(CONFIGURATION)
    edits = [admin.patch(f"/admin/v1/providers/{names[0]}", json={"drop": ["seed"]}, headers=match(created[0])) for _ in range(3)]
    file = admin.post(CONFIGURATION, content=provider_file(names[0], 5), headers=match(exported))
    statuses = sorted(each.status_code for each in await asyncio.gather(*edits, file))
    assert statuses == [200, 412, 412, 412]
    kept = tomllib.loads((await admin.get(CONFIGURATION)).text)["providers"]
    assert kept.keys() >= set(names)
    await asyncio.gather(*(admin.delete(f"/admin/v1/providers/{name}", headers={"if-match": "*"}) for name in names))


async def test_workers_report_the_version_they_serve_and_records_name_the_configuration(admin: httpx2.AsyncClient) -> None:
    workers = (await ok(await admin.get("/admin/v1/workers", params={"sort": "-version"})))["data"]
    assert workers and all(each["version"] >= 0 and each["seen_at"] for each in workers)
    newest = (await ok(await admin.get("/admin/v1/snapshots", params={"limit": 1})))["data"][0]
    document = (await ok(await admin.get(f"/admin/v1/snapshots/{newest['hash']}")))["document"]
    assert "sandbox" in document["providers"] and "sandbox" in document["models"]
    await ok(await admin.get("/admin/v1/snapshots/nonesuch"), 404)
    shown = {each["name"]: each for each in (await ok(await admin.get("/admin/v1/settings")))["data"]}
    assert shown["DATABASE_URL"]["value"] is None and shown["NARTHEX_PORT"]["value"] == admin.base_url.port


class RandomEdits:
    """Edits of entries of its own, beside whatever else is configured. `states`: what was exported after each version."""

    def __init__(self, admin: httpx2.AsyncClient, seed: int) -> None:
        self.admin, self.random = admin, random.Random(seed)
        mark = unique("r")
        self.providers, self.models, self.limits = ([f"{mark}-{kind}{number}" for number in range(3)] for kind in "pml")
        self.states: dict[int, dict[str, Any]] = {}

    async def edit(self) -> httpx2.Response:
        choose = self.random.choice
        edit = choose([self._put, self._put, self._patch, self._delete, self._apply, self._apply, self._restore])
        return await edit()

    async def _put(self) -> httpx2.Response:
        path, body = self._entry()
        return await self.admin.put(path, json=body, headers=await self._if_match(path))

    async def _patch(self) -> httpx2.Response:
        path, body = self._entry()
        changes = {name: self.random.choice([value, None]) for name, value in body.items()}
        return await self.admin.patch(path, json=changes, headers={"if-match": "*"})

    async def _delete(self) -> httpx2.Response:
        return await self.admin.delete(self._entry()[0], headers={"if-match": "*"})

    async def _apply(self) -> httpx2.Response:
        sections: dict[str, Any] = {"providers": {}, "models": {}}
        for section, names, make in (("providers", self.providers, self._provider), ("models", self.models, self._model)):
            for name in self.random.sample(names, 2):
                sections[section][name] = make()
        limit = {"name": self.random.choice(self.limits), **self._limit()}
        lines = [f"[{section}.{name}]\n{_toml(entry)}" for section, entries in sections.items() for name, entry in entries.items()]
        file = "\n".join([*lines, f"[[limits]]\n{_toml(limit)}"])
        dry_run = {"dry_run": "true"} if self.random.random() < 0.3 else {}
        return await self.admin.post(CONFIGURATION, content=file, params=dry_run, headers=match(await self.admin.get(CONFIGURATION)))

    async def _restore(self) -> httpx2.Response:
        version = self.random.choice(list(self.states))
        response = await self.admin.post(f"{VERSIONS}/{version}/restore", headers={"if-match": "*"})
        if response.is_success:
            assert await self.exported() == self.states[version]
        return response

    def _entry(self) -> tuple[str, dict[str, Any]]:
        choose = self.random.choice
        return choose(
            [
                (f"/admin/v1/providers/{choose(self.providers)}", self._provider()),
                (f"/admin/v1/models/{choose(self.models)}", self._model()),
                (f"/admin/v1/limits/{choose(self.limits)}", self._limit()),
                (f"/admin/v1/prices/{choose(self.providers)}/m/{choose(['always', '2026-11-01'])}", {"input": choose([1, 2]), "output": 3}),
            ]
        )

    def _provider(self) -> dict[str, Any]:
        choose = self.random.choice
        return {"adapter": "openai", "base_url": f"http://127.0.0.1:{choose([1, 2])}", "drop": choose([[], ["seed"]])}

    def _model(self) -> dict[str, Any]:
        targets = [{"provider": self.random.choice(self.providers), "model": "m"} for _ in range(self.random.choice([1, 2]))]
        return {"targets": targets, "timeouts": {"total_s": self.random.choice([5, 6])}}

    def _limit(self) -> dict[str, Any]:
        model = self.random.choice(self.models)
        return {"scope": {"model": model}, "resource": "requests", "amount": self.random.choice([10**6, 10**7]), "per": "day"}

    async def _if_match(self, path: str) -> Mapping[str, str]:
        shown = await self.admin.get(path)
        stale = self.random.random() < 0.2
        return {} if shown.status_code == 404 else {"if-match": '"stale"'} if stale else match(shown)

    async def exported(self) -> dict[str, Any]:
        """Returns the configuration without its teams, which are never removed."""
        state = tomllib.loads((await self.admin.get(CONFIGURATION)).text)
        return {section: entries for section, entries in state.items() if section != "teams"}

    async def listed(self) -> dict[str, Any]:
        """The entries of all lists as a file has them."""
        kinds = {"providers": ProviderConfig, "models": ModelConfig, "limits": Limit, "prices": Price}
        sections: dict[str, Any] = {}
        for section, kind in kinds.items():
            rows = (await ok(await self.admin.get(f"/admin/v1/{section}", params={"limit": 1000})))["data"]
            keyed = [({each.pop("name"): each} if section in ("providers", "models") else each) for each in map(_without_times, rows)]
            if section in ("providers", "models"):
                sections[section] = {name: msgspec.convert(entry, kind) for each in keyed for name, entry in each.items()}
            else:
                sections[section] = tuple(msgspec.convert(each, kind) for each in keyed)
        return sections


def _without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("created_at", "updated_at")}


def _toml(entry: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {_value(value)}\n" for name, value in entry.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_value(each)}" for name, each in cast("dict[str, Any]", value).items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, cast("list[Any]", value))) + "]"
    return json.dumps(value)


def _after(state: Mapping[str, Any], changes: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    """A state by section and name, with the changes of a version."""
    entries = _by_name(state)
    for change in changes:
        key = (change["section"], change["name"])
        assert entries.get(key) == change["before"], key
        if change["after"] is None:
            del entries[key]
        else:
            entries[key] = change["after"]
    return entries


def _by_name(state: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    entries: dict[tuple[str, str], Any] = {}
    for section, content in state.items():
        if isinstance(content, dict):
            entries |= {(section, name): entry for name, entry in cast("dict[str, Any]", content).items()}
        else:
            entries |= {(section, _name(section, entry)): entry for entry in content}
    return entries


def _name(section: str, entry: Mapping[str, Any]) -> str:
    if section == "limits":
        return entry["name"]
    return f"{entry['provider']}/{entry['model']}" + (f" since {entry['since']}" if "since" in entry else "")


async def test_export_rest_and_history_agree_after_random_edits(admin: httpx2.AsyncClient) -> None:
    edits = RandomEdits(admin, seed=16)
    for name in edits.providers:
        await ok(await admin.put(f"/admin/v1/providers/{name}", json={"adapter": "openai", "base_url": "http://127.0.0.1:9"}), 201)
    first = await admin.get(CONFIGURATION)
    version = int(first.headers["etag"].strip('"'))
    edits.states[version] = await edits.exported()
    seen: dict[int, int] = {}
    for _ in range(35):
        response = await edits.edit()
        seen[response.status_code] = seen.get(response.status_code, 0) + 1
        exported = await admin.get(CONFIGURATION)
        state = await edits.exported()
        newest = int(exported.headers["etag"].strip('"'))
        if newest == version:
            assert state == edits.states[version], response.text
        else:
            assert newest == version + 1 and response.is_success
            changes = (await ok(await admin.get(f"{VERSIONS}/{newest}", params={"limit": 1000})))["data"]
            assert _after(edits.states[version], [each for each in changes if each["section"] != "teams"]) == _by_name(state)
            edits.states[newest], version = state, newest
            file = parse_config_file(exported.text)
            in_file = {
                "providers": file.providers or {},
                "models": file.models or {},
                "limits": file.limits or (),
                "prices": file.prices or (),
            }
            assert await edits.listed() == in_file
    assert len(edits.states) > 15 and seen.keys() >= {200, 201, 400, 404, 409, 412}, seen
    await ok(await admin.post(f"{VERSIONS}/{min(edits.states)}/restore", headers={"if-match": "*"}))
