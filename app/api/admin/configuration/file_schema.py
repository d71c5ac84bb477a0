"""GET /admin/v1/configuration/schema: the JSON Schema of the configuration file, by which editors complete and check it."""

from typing import Any, cast

import msgspec

from app.api.openapi.schemas import REFERENCE, Schema, schemas_of, without_null
from app.api.rest.command import Command
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.store.configuration.config_file import SCHEMA_FILE, ConfigFile


def file_schema() -> Schema:
    """The schema, in the draft that editors of TOML know."""
    _, records = schemas_of([ConfigFile])
    scope = records["Limit"]["properties"]["scope"]
    # A file may have the word for it.
    records["Limit"]["properties"]["scope"] = {"description": scope.pop("description"), "anyOf": [scope, {"const": "all"}]}
    file: Schema = {**records.pop("ConfigFile"), "additionalProperties": False, "definitions": records}
    text = msgspec.json.encode(
        {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Narthex configuration", **_without_nulls(file)}
    )
    return msgspec.json.decode(text.replace(REFERENCE.encode(), b"#/definitions/"))


def _without_nulls(schema: Any) -> Any:
    """The schema without null, which TOML does not have, so that an editor names the place of a mistake within a choice."""
    if isinstance(schema, list):
        return [_without_nulls(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return without_null({name: _without_nulls(each) for name, each in cast(Schema, schema).items()})


async def _show(call: Call[NoQuery, NoBody]) -> Answer:
    return Answer(file_schema())


def operations() -> list[Operation[Any, Any]]:
    return [
        Operation(
            method="GET",
            path="/configuration/schema",
            id="get_configuration_schema",
            tag="Configuration",
            summary="Show the JSON Schema of the configuration file",
            description=f"Editors complete and check a file by it that begins with `#:schema {SCHEMA_FILE}`, as an export does.",
            permission=None,
            access="memory",
            response=dict[str, Any],
            commands=(
                Command(
                    name="schema",
                    summary="Print the JSON Schema of the configuration file.",
                    help=f"Editors complete and check a file by it that begins with `#:schema {SCHEMA_FILE}`, as what `narthex export`"
                    " prints does. Needs no gateway.",
                    examples=(f"schema > {SCHEMA_FILE}",),
                    needs_database=False,
                    render="configuration.file_schema",
                ),
            ),
            handler=_show,
        )
    ]
