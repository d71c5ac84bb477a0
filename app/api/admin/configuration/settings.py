"""The settings in force: GET /admin/v1/settings. Secrets are never shown."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from msgspec import Struct

from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.settings import OtlpHeaders, ProxyUrl, Secrets, Settings, environment_name


class SettingInForce(Struct, frozen=True):
    """A setting of the responding process, by its environment variable. `value` null: it is empty, or (`secret`) may hold a secret.

    `is_set`: it differs from its default.
    """

    name: str
    value: str | int | float | None
    is_set: bool
    secret: bool
    description: str


class SettingsInForce(Struct, frozen=True):
    """All settings, in the order of the documentation."""

    data: Sequence[SettingInForce]


def describe(settings: Settings) -> SettingsInForce:
    described: list[SettingInForce] = []
    for each in fields(settings):
        value: Any = getattr(settings, each.name)
        is_secret = not each.repr or isinstance(value, Secrets)
        is_set = bool(value.parsed) if isinstance(value, Secrets | OtlpHeaders) else value != each.default
        shown = None if is_secret else _shown(value)
        described.append(SettingInForce(environment_name(each), shown, is_set, is_secret, each.metadata["meaning"]))
    return SettingsInForce(described)


def _shown(value: Any) -> str | int | float | None:
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return float(value)  # a share is one
    return (repr(value).strip("'") if isinstance(value, ProxyUrl) else str(value)) or None


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    async def show(call: Call[NoQuery, NoBody]) -> Answer:
        return Answer(describe(settings))

    return [
        Operation(
            method="GET",
            path="/settings",
            id="list_settings",
            tag="Configuration",
            summary="List the settings in force, without secrets",
            description="Of the responding process. They are environment variables, so they are changed where it is started.",
            permission="config:read",
            access="memory",
            response=SettingsInForce,
            commands=(Command(name="settings"),),
            handler=show,
        )
    ]
