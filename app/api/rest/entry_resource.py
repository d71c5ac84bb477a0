"""The handlers that providers, models, limits and prices share: each is a section of the configuration as a resource."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from app.api.rest.command import Command
from app.api.rest.credential_places import require_may_send_credentials
from app.api.rest.etags import etag_of
from app.api.rest.fields import Name, Warnings
from app.api.rest.links import encode_segment
from app.api.rest.merge_patch import merge, patch_type
from app.api.rest.operation import Answer, Call, NoBody, NoQuery
from app.api.rest.refused_fields import refused_field
from app.api.rest.replacement import check_read_only, replacement_type
from app.api.rest.request_parsing import convert_admin_body
from app.api.rest.settings_types import entry_type, new_type, settings_type
from app.domain.errors import BadConfiguration, StillUsed
from app.domain.experiments import MetricConfig
from app.domain.functions import FunctionConfig
from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig
from app.settings import Settings
from app.store.access.roles import Permission
from app.store.configuration.configuration import change_configuration, edited
from app.store.configuration.entries import Condition, Entry, Section, find_references
from app.store.configuration.limits_of_keys import drop_limits_about_missing, read_limits_of_keys
from app.store.configuration.rows import State, lock_configuration
from app.store.postgres.paging import Page
from providers.canonical.errors import Conflict, InvalidRequest, UnknownRecord

T = TypeVar("T", ProviderConfig, ModelConfig, Limit, Price, FunctionConfig, MetricConfig)

_MAX_REFERENCES_SHOWN = 10


class EntryQuery(Protocol):
    """The parameters of a list, beside its filters."""

    @property
    def limit(self) -> int: ...
    @property
    def after(self) -> str | None: ...
    @property
    def sort(self) -> str: ...
    @property
    def search(self) -> str | None: ...


class DeletedEntry(Struct, frozen=True):
    """The entry that was deleted. `name` is its place in a configuration file.

    `warnings` also names limits of keys that were deleted with it.
    """

    name: str
    deleted: Literal[True] = True
    warnings: Warnings | UnsetType = UNSET


@dataclass(frozen=True, kw_only=True)
class EntryResource(Generic[T]):
    """A section of the configuration as a resource."""

    section: Section[T]
    noun: str
    path: str
    key_path: str
    tag: str
    about: str  # a sentence that says what an entry is
    query: type[Any]
    conditions: Callable[[Any], Sequence[Condition]]  # makes conditions of a query's filters
    example: Mapping[str, Any]  # of `settings`
    patch_example: Mapping[str, Any]
    identified: Mapping[str, str]  # an example of what identifies an entry
    id_noun: str | None = None  # the noun of the operations' ids, if `noun` would make one that another route has
    only: Sequence[Condition] = ()  # the entries of the resource, if it has not the whole section
    read_key: Callable[[Mapping[str, str]], dict[str, str]] = lambda path: {"name": path["name"]}
    write_key: Callable[[Mapping[str, str]], Sequence[str]] = lambda key: list(key.values())
    normalize: Callable[[Any], Any] = lambda config: config
    read_permission: Permission = "config:read"
    # what those see who have the permission only within these teams; None: it is not for them
    visible: Callable[[frozenset[str]], Condition] | None = None
    counted: type[Struct] | None = None  # what GET of one answers, if that has counts beside `shown`
    # of the operation whose id begins so (`list`, `put` ...), if they do not follow from its path
    commands: Mapping[str, Sequence[Command]] = field(default_factory=dict[str, Sequence[Command]])
    gateway_settings: Settings
    key: Mapping[str, Any] = field(default_factory=lambda: {"name": Name})  # the types of the fields that identify an entry
    own_settings: type[Struct] | None = None  # `settings`, where these are not simply those of the section's record
    key_fields: Sequence[str] = field(init=False)  # those of `key` that the file has in the entry
    settings: type[Struct] = field(init=False)  # what can be set, with the names of the file
    new: type[Any] = field(init=False)  # a body of POST
    shown: type[Any] = field(init=False)  # `settings`, what identifies an entry, and its times
    replacement: type[Any] = field(init=False)
    changes: type[Any] = field(init=False)
    changed: type[Any] = field(init=False)

    def __post_init__(self) -> None:
        own_fields = self.section.kind.__struct_fields__
        object.__setattr__(self, "key_fields", [name for name in self.key if name in own_fields])
        made: Any = self.own_settings or settings_type(self.section.kind, tuple(self.key), noun=self.noun)
        object.__setattr__(self, "settings", made)
        object.__setattr__(self, "new", new_type(self.settings, self.noun, **self.key))
        object.__setattr__(self, "shown", entry_type(self.settings, self.noun, self.about, **self.key))
        object.__setattr__(self, "replacement", replacement_type(self.settings, self.counted or self.shown))
        object.__setattr__(self, "changes", patch_type(self.settings, f"{self.shown.__name__}Changes"))
        object.__setattr__(self, "changed", _changed_type(self.shown, self.noun))

    async def page(self, call: Call[Any, NoBody]) -> Answer:
        query = cast(EntryQuery, call.query)
        conditions = [*self.only, *self.conditions(call.query), *self._visible_conditions(call)]
        page = await self.section.page(call.connection, query, query.search, conditions)
        return Answer(Page([self._show(entry) for entry in page.data], page.next))

    async def show(self, call: Call[Any, NoBody]) -> Answer:
        return self.answer(await self.find(call, *self._visible_conditions(call)))

    async def create(self, call: Call[NoQuery, Any]) -> Answer:
        body = msgspec.to_builtins(call.body)
        key = self._key_of(body)
        await lock_configuration(call.connection)
        if await self._find_own(call, key) is not None:
            raise Conflict(f"There is a {self.noun} {self._name(key)!r} already. PATCH {self._url(key)} changes it.")
        settings = {name: value for name, value in body.items() if name in self.settings.__struct_fields__}
        return await self.store(call, key, settings, status=201)

    async def put(self, call: Call[NoQuery, Any]) -> Answer:
        key = self.read_key(call.path)
        await lock_configuration(call.connection)
        before = await self._find_own(call, key)
        call.check_match(before and etag(before))
        current = {name: value or None for name, value in key.items()} if before is None else self._content(before)
        counts = set(self.counted.__struct_fields__) - set(self.shown.__struct_fields__) if self.counted else ()
        check_read_only(call.body, self.settings, current, exists=before is not None, counts=counts)
        body = msgspec.to_builtins(call.body)
        settings = {name: body[name] for name in self.settings.__struct_fields__ if name in body}
        return await self.store(call, key, settings, status=201 if before is None else 200)

    async def patch(self, call: Call[NoQuery, Any]) -> Answer:
        before = await self.find_to_change(call)
        merged = merge(self.settings_of(before), msgspec.to_builtins(call.body))
        settings = convert_admin_body(merged, self.settings)
        return await self.store(call, before.key, msgspec.to_builtins(settings))

    async def delete(self, call: Call[NoQuery, NoBody]) -> Answer:
        before = await self.find_to_change(call)
        name = self._name(before.key)
        of_keys = await read_limits_of_keys(call.connection)
        about_limits: list[str] = []

        def edit(state: State) -> State:
            without = self.section.replace(state, before.key, None)
            limits, sentences = drop_limits_about_missing(without.snapshot, without.snapshot.limits, of_keys)
            about_limits.extend(sentences)
            without = edited(without, limits=limits) if sentences else without
            references = find_references(without, self.section.name, name)
            if references:
                shown = ", ".join(references[:_MAX_REFERENCES_SHOWN])
                more = f" and {len(references) - _MAX_REFERENCES_SHOWN} more" if len(references) > _MAX_REFERENCES_SHOWN else ""
                raise Conflict(f"These refer to the {self.noun} {name!r}: {shown}{more}. Change or delete them first.")
            return without

        warnings = [*await self._change(call, name, edit), *about_limits]
        return Answer(DeletedEntry(name, warnings=warnings or UNSET), warnings=warnings)

    async def find(self, call: Call[Any, Any], *conditions: Condition) -> Entry:
        """The entry of the path. Raises UnknownRecord."""
        key = self.read_key(call.path)
        entry = await self.section.find(call.connection, key, *self.only, *conditions)
        if entry is None:
            raise UnknownRecord(f"There is no {self.noun} {self._name(key)!r:.200}. GET /admin/v1{self.path} lists them.")
        return entry

    async def find_to_change(self, call: Call[Any, Any]) -> Entry:
        """The entry of the path, locked, in the state that If-Match names."""
        await lock_configuration(call.connection)
        before = await self.find(call)
        call.check_match(etag(before))
        return before

    async def store(self, call: Call[Any, Any], key: Mapping[str, str], settings: Mapping[str, Any], status: int = 200) -> Answer:
        """Store an entry. `settings` are JSON's own types, of the type `settings`."""
        of_key = {name: key[name] or None for name in self.key_fields}
        config = self.normalize(msgspec.convert({**settings, **of_key}, self.section.kind))
        warnings = await self._change(call, self._name(key), lambda state: self.section.replace(state, key, config))
        stored = await self.section.find(call.connection, key)
        assert stored is not None, "it was stored in this transaction"
        return self.answer(stored, status, warnings)

    def answer(self, entry: Entry, status: int = 200, warnings: Sequence[str] = ()) -> Answer:
        shown = msgspec.convert({**self._content(entry), "warnings": list(warnings)}, self.changed) if warnings else self._show(entry)
        return Answer(shown, etag=etag(entry), status=status, warnings=warnings)

    def settings_of(self, entry: Entry) -> dict[str, Any]:
        return {name: value for name, value in entry.config.items() if name not in self.key_fields}

    async def _find_own(self, call: Call[Any, Any], key: Mapping[str, str]) -> Entry | None:
        """The entry that has a key. Raises Conflict if it is one of the section that is not of this resource."""
        entry = await self.section.find(call.connection, key)
        if entry is not None and self.only and await self.section.find(call.connection, key, *self.only) is None:
            other = f"/admin/v1/{self.section.name}/{'/'.join(map(encode_segment, self.write_key(key)))}"
            raise Conflict(f"The name {self._name(key)!r} is taken, by what is no {self.noun}: {other}.")
        return entry

    async def _change(self, call: Call[Any, Any], name: str, edit: Callable[[State], State]) -> Sequence[str]:
        """Returns warnings. `name`: of the entry that is edited."""
        settings = self.gateway_settings
        try:
            changed = await change_configuration(
                call.connection, call.author, edit, output_tokens=settings.limits_output_tokens, guard=settings.address_guard
            )
        except StillUsed:
            raise
        except BadConfiguration as fault:
            raise InvalidRequest(str(fault), param=refused_field(str(fault), self.section.name, name)) from None
        require_may_send_credentials(call, changed)
        return changed.warnings

    def _visible_conditions(self, call: Call[Any, Any]) -> list[Condition]:
        if self.visible is None:
            return []
        teams = call.visible_teams()
        return [] if teams is None else [self.visible(teams)]

    def _show(self, entry: Entry) -> Any:
        return msgspec.convert(self._content(entry), self.shown)

    def _content(self, entry: Entry) -> dict[str, Any]:
        key = {name: value or None for name, value in entry.key.items()}
        times = {"created_at": entry.created_at, "updated_at": entry.updated_at}
        return {**entry.config, **key, **times}

    def _key_of(self, body: Mapping[str, Any]) -> dict[str, str]:
        return {name: body[name] or "" for name in self.section.key_columns}

    def _name(self, key: Mapping[str, str]) -> str:
        return "/".join(filter(None, key.values()))

    def _url(self, key: Mapping[str, str]) -> str:
        return f"/admin/v1{self.path}/{'/'.join(map(encode_segment, self.write_key(key)))}"


def _changed_type(shown: type[Struct], noun: str) -> type[Any]:
    """Returns the response type of a change of an entry: the entry, with warnings if there are any."""
    return msgspec.defstruct(
        f"Changed{noun.capitalize()}",
        [("warnings", Warnings | UnsetType, UNSET)],
        bases=(shown,),
        module=shown.__module__,
        namespace={"__doc__": f"A {noun} as it is after a change."},
        frozen=True,
        kw_only=True,
    )


def etag(entry: Entry) -> str:
    """Returns the ETag of the part of the entry that an editor may change."""
    return etag_of(entry.config)
