"""The manifest of commands: the command line knows every operation by commands.json, which build.py makes of the declarations."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from app.api.rest.command import Beside, Column, Parts, Wait

MANIFEST = Path(__file__).with_name("commands.json")

# moment, past_moment, duration: as people type them, sent as ISO 8601 or seconds. stdin: a flag, whose value is read from standard input.
# secret: no option; its value is read from a prompt or standard input. pairs: NAME=VALUE, again and again; number_pairs: NAME=NUMBER;
# edits: pairs of which NAME= removes one. share: 0.5 or 50%. conditions: of feedback, as score>=0.8. constant: a flag that gives its
# field a value. json: what has no short form.
Text = Literal["text", "texts", "networks", "pairs", "edits", "key", "choice", "stdin", "secret", "json", "file", "conditions"]
Number = Literal["integer", "integers", "number", "number_pairs", "share", "duration"]
Kind = Text | Number | Literal["flag", "switch", "constant", "moment", "past_moment"]


class Parameter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An argument (without flags) or option of a command."""

    field: str
    place: Literal["path", "query", "body"]
    flags: Sequence[str] = ()
    kind: Kind = "text"
    help: str = ""
    metavar: str = ""
    is_required: bool = False
    choices: Sequence[str] = ()
    minimum: float | None = None  # of a text: its length
    maximum: float | None = None
    excludes_minimum: bool = False
    excludes_maximum: bool = False
    default: str = ""  # as help shows it
    value: Any = None  # of a constant
    sent: str = ""  # the default, where the operation has another one
    words: Mapping[str, Any] = {}  # that stand alone for a value of their own
    decides: bool = False  # which of several commands of one name is run
    parse: str = ""  # MODULE.FUNCTION of app.cli.operations
    null: str = ""  # the word for null


class MadeCommand(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One command of one operation, as app/api/rest/command.py and operation.py declare them."""

    name: str
    id: str
    method: str
    path: str
    subject: str  # the module of app.api.admin that declares it
    summary: str
    help: str
    parameters: Sequence[Parameter] = ()
    takes_body: bool = False
    takes_file: bool = False  # with fields of the body
    unsettable: Sequence[str] = ()  # fields that --unset sets back to their default
    replaces: Sequence[str] = ()
    creates: str = ""  # the id of the operation that creates what this one would change
    creation_needs: Sequence[str] = ()
    is_local: bool = False  # it can run in the command's process
    needs_database: bool = True  # to run there
    is_change: bool = False
    is_conditional: bool = False
    media_type: str = "application/json"
    timeout_s: float = 10.0
    fixed: Mapping[str, Any] = {}
    columns: Sequence[Column] = ()
    nothing: str = ""
    done: str = ""
    confirm: Sequence[str] = ()
    preview: str = ""
    parts: Parts | None = None
    beside: Mapping[str, Beside] = {}
    fails: str = ""
    quiet: str = ""
    data: str = ""
    only: Sequence[str] = ()
    one_of: Sequence[str] = ()
    needs_one: bool = False
    shows: Mapping[str, str] = {}
    render: str = ""
    shape: str = ""
    wait: Wait | None = None


class Outline(Struct, frozen=True, omit_defaults=True):
    """A command that is written by hand, as far as a TAB needs it."""

    name: str
    summary: str
    parameters: Sequence[Parameter] = ()
    is_group: bool = False


class Manifest(Struct, frozen=True):
    summaries: Mapping[str, str]  # the first line of help of each command at the root
    routes: Mapping[str, str]  # the command that does what METHOD PATH does
    outlines: Sequence[Outline]
    commands: Sequence[MadeCommand]
    reads: Sequence[MadeCommand] = ()  # operations that commands run beside their own, and whose commands are written by hand


@functools.cache
def load_manifest() -> Manifest:
    return msgspec.json.decode(MANIFEST.read_bytes(), type=Manifest)
