"""The operations that providers, models, limits and prices share: list, show, create, put, patch and delete."""

from typing import Any, Literal

from app.api.rest.command import Command
from app.api.rest.entry_resource import DeletedEntry, EntryResource
from app.api.rest.operation import Operation
from app.store.postgres.paging import Page


def entry_operations(resource: EntryResource[Any]) -> list[Operation[Any, Any]]:
    item, noun, id_noun = f"{resource.path}{resource.key_path}", resource.noun, resource.id_noun or resource.noun
    scope: Literal["company", "team"] = "company" if resource.visible is None else "team"
    missing = {404: f"There is no such {noun}."}
    made = (Command(),)
    taken = {409: f"The name is taken, by what is no {noun}."} if resource.only else {}
    return [
        Operation(
            method="GET",
            path=resource.path,
            id=f"list_{id_noun}s",
            tag=resource.tag,
            summary=f"List {noun}s",
            permission=resource.read_permission,
            scope=scope,
            query=resource.query,
            response=Page[resource.shown],
            commands=resource.commands.get("list", made),
            handler=resource.page,
        ),
        Operation(
            method="POST",
            path=resource.path,
            id=f"create_{id_noun}",
            tag=resource.tag,
            summary=f"Create a {noun}",
            permission="config:write",
            access="write",
            body=resource.new,
            response=resource.changed,
            status=201,
            errors={409: f"There is such a {noun} already."},
            example={**resource.identified, **resource.example},
            commands=resource.commands.get("create", made),
            handler=resource.create,
        ),
        Operation(
            method="GET",
            path=item,
            id=f"get_{id_noun}",
            tag=resource.tag,
            summary=f"Show a {noun}",
            permission=resource.read_permission,
            scope=scope,
            response=resource.shown,
            errors=missing,
            commands=resource.commands.get("get", made),
            handler=resource.show,
        ),
        Operation(
            method="PUT",
            path=item,
            id=f"put_{id_noun}",
            tag=resource.tag,
            summary=f"Create a {noun}, or replace all of its settings",
            permission="config:write",
            access="write",
            body=resource.replacement,
            response=resource.changed,
            conditional=True,
            errors={201: f"The {noun} was created.", **taken},
            example=resource.example,
            commands=resource.commands.get("put", made),
            handler=resource.put,
        ),
        Operation(
            method="PATCH",
            path=item,
            id=f"patch_{id_noun}",
            tag=resource.tag,
            summary=f"Change settings of a {noun}",
            permission="config:write",
            access="write",
            body=resource.changes,
            response=resource.changed,
            conditional=True,
            errors=missing,
            example=resource.patch_example,
            commands=resource.commands.get("patch", made),
            handler=resource.patch,
        ),
        Operation(
            method="DELETE",
            path=item,
            id=f"delete_{id_noun}",
            tag=resource.tag,
            summary=f"Delete a {noun}",
            permission="config:write",
            access="write",
            response=DeletedEntry,
            conditional=True,
            errors={**missing, 409: f"Something refers to the {noun}: the message says what."},
            commands=resource.commands.get("delete", made),
            handler=resource.delete,
        ),
    ]
