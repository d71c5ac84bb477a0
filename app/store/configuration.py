"""Configuration as a TOML file: `apply` makes the directory say what the file says, `export` writes the file that says what it says."""

import asyncio
import difflib
import re
import time
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import httpx
import msgspec
import tomli_w
from msgspec import Struct
from sqlalchemy import Table, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import Directory, ModelConfig, ProviderConfig
from app.store import directory, tables
from app.store.database import transaction
from providers import catalogue
from providers.credentials import check as check_credential

T = TypeVar("T")


class BadConfiguration(ValueError):
    """A file that cannot be applied; the message says where, what is wrong and what would be right."""


class _Said(Struct, forbid_unknown_fields=True):
    """A file's sections, their content not looked at yet."""

    providers: dict[str, Any] | None = None
    models: dict[str, Any] | None = None


class File(Struct):
    """The sections of a file. None: the file does not have the section, so nothing in it is touched."""

    providers: dict[str, ProviderConfig] | None = None
    models: dict[str, ModelConfig] | None = None


def read_file(content: str) -> File:
    """Raises BadConfiguration for what is wrong with the file by itself."""
    try:
        said = _convert(tomllib.loads(content), _Said, "")
    except tomllib.TOMLDecodeError as fault:
        raise BadConfiguration(f"The file is not TOML: {fault}.") from None
    return File(_section("providers", said.providers, ProviderConfig), _section("models", said.models, ModelConfig))


def _section(section: str, said: Mapping[str, Any] | None, kind: type[T]) -> dict[str, T] | None:
    return None if said is None else {name: _convert(value, kind, f"{section}.{name}") for name, value in said.items()}


def _convert(said: Any, kind: type[T], place: str) -> T:
    """One at a time, because msgspec does not tell under which name a fault lies."""
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as fault:
        what, _, path = str(fault).partition(" - at `$")
        where = (place + path.rstrip("`")).removeprefix(".")
        raise BadConfiguration(f"{what} at `{where}`." if where else f"{what}.") from None


def write_file(now: Directory) -> str:
    """The TOML that says what the directory says."""
    sections = {"providers": now.providers, "models": now.models}
    return tomli_w.dumps(msgspec.to_builtins({name: section for name, section in sections.items() if section}))


async def apply(database_url: str, content: str, *, prune: bool, confirm: Callable[[str], bool], wait_s: float = 30.0) -> str:
    """Upserts what the file says, and with `prune` removes, in the sections it has, what it does not say.

    `confirm` is shown the difference first. Returns, in a sentence, what came of it, once every worker serves it (or `wait_s` is over).
    Raises BadConfiguration, with nothing changed.
    """
    file = read_file(content)
    async with transaction(database_url) as connection:
        now = await _read(connection)
    wanted = _merged(now, file, prune=prune)
    check(wanted)
    if wanted.hash == now.hash:
        return "Nothing to change."
    # Asked outside of any transaction: a person may take their time, and nobody should wait for them behind a lock.
    if not confirm(_difference(now, wanted)):
        return "Nothing was changed."
    async with transaction(database_url) as connection:
        # The lock makes two applies take turns; what the first changed after our diff was shown must not be lost unseen.
        await connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('narthex directory'))"))
        if await directory.read_version(connection) != now.version:
            raise BadConfiguration("The configuration was changed by somebody else in the meantime: run this again to see the difference.")
        await _store(connection, tables.providers, now.providers, wanted.providers)
        await _store(connection, tables.models, now.models, wanted.models)
        version = await _raise_version(connection)
        await connection.execute(text("SELECT pg_notify(:channel, '')"), {"channel": directory.CHANNEL})
    return await _wait_for_workers(database_url, version, wait_s)


async def export(database_url: str) -> str:
    async with transaction(database_url) as connection:
        return write_file(await _read(connection))


async def _read(connection: AsyncConnection) -> Directory:
    await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
    return await directory.read(connection)


def check(wanted: Directory) -> None:
    """Raises BadConfiguration for the first thing that could not be served."""
    for name, provider in wanted.providers.items():
        _check_name("providers", name)
        try:
            adapter = catalogue.build(provider.adapter, name, provider.options)
            check_credential(provider.credential)
        except ValueError as fault:
            raise BadConfiguration(f"providers.{name}: {fault}") from None
        if provider.base_url is not None:
            _check_url(f"providers.{name}.base_url", provider.base_url)
        if provider.base_url is None and adapter.default_base_url is None:
            raise BadConfiguration(f"providers.{name}.base_url is needed: adapter {provider.adapter!r} has no address of its own.")
    for name, model in wanted.models.items():
        _check_name("models", name)
        if not model.targets:
            raise BadConfiguration(f"models.{name}.targets is empty: nothing would serve it.")
        if not model.fallbacks and all(target.weight == 0 for target in model.targets):
            raise BadConfiguration(f"models.{name}.targets all have weight 0, and there is no fallback: nothing would serve it.")
        for at, target in enumerate(model.targets):
            place = f"models.{name}.targets[{at}]"
            if target.provider not in wanted.providers:
                known = ", ".join(sorted(wanted.providers)) or "none yet"
                raise BadConfiguration(f"{place}.provider: there is no provider {target.provider!r}. There are: {known}.")
            if not target.model.strip() or not target.model.isprintable():
                raise BadConfiguration(f"{place}.model must be the engine's name for its model; {target.model!r} is none.")
            if target.weight is not None and not 0 <= target.weight < float("inf"):
                raise BadConfiguration(f"{place}.weight must be 0 or more.")
            for endpoint in target.endpoints:
                _check_url(f"{place}.endpoints", endpoint)
        for fallback in model.fallbacks:
            if fallback not in wanted.models:
                raise BadConfiguration(f"models.{name}.fallbacks: there is no model {fallback!r}.")
            if fallback == name:
                raise BadConfiguration(f"models.{name}.fallbacks: a model cannot fall back to itself.")


def _check_name(section: str, name: str) -> None:
    if not name or name != name.strip() or not name.isprintable():
        raise BadConfiguration(f"{section}.{name!r}: a name is printable, with no space at its ends.")


def _check_url(place: str, url: str) -> None:
    """What every worker will build requests with must be an address to them too, and holds no secret: it is shown and recorded."""
    try:
        parsed = httpx.URL(url)
        has_port = parsed.port is None or 0 < parsed.port < 65536
    except (httpx.InvalidURL, ValueError):
        raise BadConfiguration(f"{place}: {_shown(url)} is not an address; it should look like http://10.0.0.5:8000.") from None
    if parsed.scheme not in ("http", "https") or not parsed.host or not has_port or any(character.isspace() for character in url):
        raise BadConfiguration(f"{place}: {_shown(url)} is not an address; it should look like http://10.0.0.5:8000.")
    if parsed.userinfo:
        raise BadConfiguration(f"{place}: an address holds no user and password; name them as `credential`.")
    if parsed.query or parsed.fragment or url[-1] in "?#":
        raise BadConfiguration(f"{place}: an address ends with its path; what follows ? or # cannot be kept.")


def _shown(url: str) -> str:
    """Without what may be a password before an @."""
    return repr(re.sub(r"(?<=//)[^/]*@", "...@", url))


def _merged(now: Directory, file: File, *, prune: bool) -> Directory:
    def section(old: Mapping[str, Any], new: Mapping[str, Any] | None) -> dict[str, Any]:
        if new is None:
            return dict(old)
        return dict(sorted({**({} if prune else old), **new}.items()))

    return directory.assemble(now.version, section(now.providers, file.providers), section(now.models, file.models))


def _difference(now: Directory, wanted: Directory) -> str:
    old, new = write_file(now).splitlines(), write_file(wanted).splitlines()
    return "\n".join(difflib.unified_diff(old, new, "now", "then", lineterm="", n=2))


async def _store(connection: AsyncConnection, table: Table, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in old.keys() - new.keys():
        await connection.execute(table.delete().where(table.c.name == name))
    for name, config in new.items():
        if old.get(name) != config:
            row = insert(table).values(name=name, config=msgspec.to_builtins(config))
            await connection.execute(
                row.on_conflict_do_update(index_elements=["name"], set_={"config": row.excluded.config, "updated_at": func.now()})
            )


async def _raise_version(connection: AsyncConnection) -> int:
    counter = insert(tables.directory_version).values(id=1, version=1)
    raised = counter.on_conflict_do_update(index_elements=["id"], set_={"version": tables.directory_version.c.version + 1})
    return (await connection.execute(raised.returning(tables.directory_version.c.version))).scalar_one()


async def _wait_for_workers(database_url: str, version: int, wait_s: float) -> str:
    """Workers that have not been seen for a minute are counted as gone."""
    workers = tables.workers
    alive = workers.c.seen_at > func.now() - text("interval '60 seconds'")
    until = time.monotonic() + wait_s
    while True:
        async with transaction(database_url) as connection:
            behind = await connection.scalar(select(func.count()).where(alive, workers.c.version < version))
            served = await connection.scalar(select(func.count()).where(alive, workers.c.version >= version))
        if not behind:
            return f"Applied as version {version}; {served} worker{'s serve' if served != 1 else ' serves'} it."
        if time.monotonic() > until:
            return f"Applied as version {version}; {behind} worker(s) have not taken it up within {wait_s:.0f} s: see their logs."
        await asyncio.sleep(0.05)
