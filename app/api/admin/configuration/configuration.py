"""The configuration as a whole: export it, apply a file, list its versions, restore one.

/admin/v1/configuration, /admin/v1/configuration/versions, /{version} and /{version}/restore.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.rest.command import Command
from app.api.rest.credential_places import require_may_send_credentials
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.domain.errors import UnknownVersion
from app.process.switch_interval import paused_collector, short_switch_interval
from app.settings import Settings
from app.store.configuration import configuration
from app.store.configuration import history as configuration_history
from app.store.configuration.apply_file import apply_file
from app.store.configuration.config_file import ConfigFile, parse_config_file
from app.store.configuration.configuration import Changed
from app.store.configuration.difference import EntryChange, display_name
from app.store.configuration.history import VersionRow, read_configuration_version
from app.store.configuration.roll_back import roll_back
from app.store.configuration.rows import lock_configuration
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import InvalidRequest, UnknownRecord

_TOML = "application/toml"
_MAX_FILE_BYTES = 4 * 1024 * 1024  # about 30,000 models; it is read in a thread, within a few seconds
_TIMEOUT_S = 20.0


class ApplyQuery(Struct, frozen=True, forbid_unknown_fields=True):
    prune: Annotated[bool, Meta(description="Also remove entries that the file lacks, in the sections that it has; never teams.")] = False


class VersionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["version", "-version"] = "-version"


class ChangesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None


class Applied(Struct, frozen=True, kw_only=True):
    """The result of applying a configuration. `version`: of the configuration in force; it is a new one if anything changed. `changed`: how
    many entries of each section.

    `warnings`: probable mistakes that it adds, and what a file would undo and does not.
    """

    version: int
    changed: dict[str, int]
    warnings: Sequence[str]


class Restored(Applied, frozen=True, kw_only=True):
    """The result of restoring an earlier configuration. `left`: what the restoring left as it is, a sentence each; also what became of
    limits of keys.
    """

    left: Sequence[str]


class Version(VersionRow, frozen=True, kw_only=True):
    """A version with a page of what it changed. `next`: give it as `after` for the next page; null: this is the last page."""

    data: Sequence[EntryChange]
    next: str | None


class ConfigurationOperations:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def export(self, call: Call[NoQuery, NoBody]) -> Answer:
        # The version first: if the content is newer, an edit of it gets 412, which is safe.
        version = await read_configuration_version(call.connection)
        return Answer((await configuration.export(call.connection)).encode(), etag=_etag(version))

    async def apply(self, call: Call[ApplyQuery, bytes]) -> Answer:
        file = await asyncio.to_thread(_parse, call.body)
        version = await _lock_version(call)
        output_tokens, guard = self._settings.limits_output_tokens, self._settings.address_guard
        changed, kept = await apply_file(
            call.connection, call.author, file, prune=call.query.prune, output_tokens=output_tokens, guard=guard
        )
        require_may_send_credentials(call, changed)
        applied = Applied(version=changed.version or version, changed=_count(changed, call), warnings=[*changed.warnings, *kept])
        return Answer(applied, etag=_etag(applied.version), warnings=[*applied.warnings, *_notes(changed)])

    async def restore(self, call: Call[NoQuery, NoBody]) -> Answer:
        wanted = _version_number(call)
        version = await _lock_version(call)
        try:
            output_tokens, guard = self._settings.limits_output_tokens, self._settings.address_guard
            restored = await roll_back(call.connection, call.author, wanted, output_tokens=output_tokens, guard=guard)
        except UnknownVersion as fault:
            raise UnknownRecord(str(fault)) from None
        changed = restored.changed
        require_may_send_credentials(call, changed)
        answer = Restored(version=changed.version or version, changed=_count(changed, call), warnings=changed.warnings, left=restored.left)
        return Answer(answer, etag=_etag(answer.version), warnings=[*changed.warnings, *_notes(changed), *restored.left])

    async def list_versions(self, call: Call[VersionQuery, NoBody]) -> Answer:
        return Answer(await configuration_history.page_versions(call.connection, call.query))

    async def show_version(self, call: Call[ChangesQuery, NoBody]) -> Answer:
        version = _version_number(call)
        row = await configuration_history.find_version(call.connection, version)
        if row is None:
            raise _unknown_version(call)
        page = await configuration_history.page_changes(call.connection, version, after=call.query.after, limit=call.query.limit)
        changes = [EntryChange(each.section, display_name(each), each.before, each.after) for each in page.data]
        return Answer(
            Version(
                version=row.version,
                at=row.at,
                author_kind=row.author_kind,
                author_id=row.author_id,
                author=row.author,
                via=row.via,
                restores=row.restores,
                changed=row.changed,
                data=changes,
                next=page.next,
            )
        )


async def _lock_version(call: Call[Any, Any]) -> int:
    """The version in force, which nobody else changes until the end of the transaction. Raises as Call.check_match()."""
    await lock_configuration(call.connection)
    version = await read_configuration_version(call.connection)
    call.check_match(_etag(version))
    return version


def _etag(version: int) -> str:
    return f'"{version}"'


def _parse(content: bytes) -> ConfigFile:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("The body is not UTF-8 text, as TOML must be.") from None
    with short_switch_interval(), paused_collector():
        return parse_config_file(text)


def _count(changed: Changed, call: Call[Any, Any]) -> dict[str, int]:
    """The changed entries by section. Teams have a permission of their own."""
    counts = Counter(change.section for change in changed.changes)
    if "teams" in counts:
        call.require("teams:write")
    return dict(counts)


def _notes(changed: Changed) -> list[str]:
    return ["Only the order of limits changes."] if changed.version is not None and not changed.changes else []


def _version_number(call: Call[Any, Any]) -> int:
    text = call.path["version"]
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= configuration_history.MAX_VERSION):
        raise _unknown_version(call)
    return int(text)


def _unknown_version(call: Call[Any, Any]) -> UnknownRecord:
    return UnknownRecord(f"There is no version {call.path['version']!r:.60}. GET /admin/v1/configuration/versions lists them.")


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    tag = "Configuration"
    handlers = ConfigurationOperations(settings)
    missing = {404: "The history has no such version."}
    return [
        Operation(
            method="GET",
            path="/configuration",
            id="export_configuration",
            tag=tag,
            summary="Export the configuration as a file",
            description="The `ETag` is its version.",
            permission="config:read",
            response=str,
            response_media_type=_TOML,
            timeout_s=_TIMEOUT_S,
            commands=(Command(name="export"),),
            handler=handlers.export,
        ),
        Operation(
            method="POST",
            path="/configuration",
            id="apply_configuration",
            tag=tag,
            summary="Apply a configuration file",
            description="Creates and replaces the entries that the file has, all or none of them; what it does not name stays as it is.",
            permission="config:write",
            access="write",
            query=ApplyQuery,
            body=bytes,
            body_media_type=_TOML,
            max_body_bytes=_MAX_FILE_BYTES,
            response=Applied,
            conditional=True,
            timeout_s=_TIMEOUT_S,
            commands=(Command(name="apply"),),
            handler=handlers.apply,
        ),
        Operation(
            method="GET",
            path="/configuration/versions",
            id="list_configuration_versions",
            tag=tag,
            summary="List versions of the configuration",
            description="Newest first: who made them, when, from where, and how many entries of each section they changed.",
            permission="config:read",
            query=VersionQuery,
            response=Page[VersionRow],
            commands=(Command(name="history"),),
            handler=handlers.list_versions,
        ),
        Operation(
            method="GET",
            path="/configuration/versions/{version}",
            id="get_configuration_version",
            tag=tag,
            summary="Show a version of the configuration, with what it changed",
            permission="config:read",
            query=ChangesQuery,
            response=Version,
            errors=missing,
            commands=(Command(name="history"),),
            handler=handlers.show_version,
        ),
        Operation(
            method="POST",
            path="/configuration/versions/{version}/restore",
            id="restore_configuration_version",
            tag=tag,
            summary="Restore an earlier version of the configuration",
            description="Makes a new version that is equal to it. Only what a file can set is restored: keys and limits that came with"
            " them, credentials, users, roles, nodes and drained endpoints stay as they are, and teams are never removed; `left` says so of"
            " what has changed since.",
            permission="config:write",
            access="write",
            response=Restored,
            conditional=True,
            errors=missing,
            timeout_s=_TIMEOUT_S,
            commands=(Command(name="rollback"),),
            handler=handlers.restore,
        ),
    ]
