"""How an operation is a command of `narthex`, where that does not follow from the operation itself.

Path segments are arguments, fields of the query and the body are options; their descriptions are the help. `python -m
app.cli.operations.build` makes the list from which the command line is made without importing any operation.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

# How the value of a field is printed in a table or a line.
Form = Literal["text", "time", "count", "size", "percents", "pairs", "state", "roles"]


class Column(Struct, frozen=True):
    """A column of a list, or a line of what is shown alone. Columns that do not fit on a terminal are left out, the last ones first."""

    field: str
    title: str = ""  # of the field's name
    form: Form = "text"
    null: str = "-"  # what null is shown as


class Option(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a command takes a field, where the field's own name and description will not do."""

    flag: str = ""
    metavar: str = ""
    help: str = ""
    is_argument: bool = False  # it has a place instead of a flag
    is_stdin: bool = False  # its flag takes no value: that is read from standard input
    decides: bool = False  # of several commands of one name, the one with this option is run where it is given
    is_secret: bool = False  # it is no option: it is read from a prompt, which is its help, or from standard input
    default: str = ""  # as people type it, where the command has another one than the operation; of the path, where it is an option
    kind: str = ""  # how people type it (app/cli/operations/manifest.py), where its schema does not say so
    parse: str = ""  # MODULE.FUNCTION of app.cli.operations that reads a value as people type it; raises ValueError
    aliases: Sequence[str] = ()  # other spellings of the flag
    null: str = ""  # the word for null
    words: Mapping[str, Any] = {}  # of a list or pairs: texts that stand alone for a value of their own, null too
    constants: Mapping[str, tuple[Any, str]] = {}  # flags that give it a value, null too, with their help


class Parts(Struct, frozen=True, omit_defaults=True):
    """An operation that does a part of its work, and is run again until all is done. Of the parts, one answer is made."""

    again: str  # the field of an answer that says where the next part begins; null: it was the last one
    sent_as: str  # the field of a request for it
    added: Sequence[str]  # numbers, lists, and counts by name that are added up


class Beside(Struct, frozen=True, omit_defaults=True):
    """A read whose answer is shown beside that of the command's own operation, of the same path and values of its query."""

    id: str  # of the operation
    fields: Sequence[str] = ()  # of its query
    fixed: Mapping[str, str] = {}
    unless: str = ""  # a field with which it cannot answer, so that null stands beside


class Wait(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command that waits for what it has begun, unless --no-wait is given, and shows that instead of the response."""

    id: str  # of the operation that shows it
    path: Mapping[str, str]  # the field of the response for each segment of its path in braces
    field: str = "status"
    until_not: str  # the value of the field until it is done
    failure: str  # the value with which the command fails


class Command(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One command of an operation.

    Several operations may have one command: that is run of whose path, and of whose options that decide, most is given.
    """

    name: str = ""  # made from the path and the id: GET /teams/{name} is `teams show`
    summary: str = ""  # instead of the operation's
    help: str | None = None  # instead of the operation's description
    examples: Sequence[str] = ()  # without `narthex`
    options: Mapping[str, Option] = {}  # by field; of the path by {field}
    fixed: Mapping[str, Any] = {}  # fields of the body or the query that the command itself sets
    columns: Sequence[Column] = ()
    nothing: str = ""  # what is printed of an empty list
    done: str = ""  # a sentence after a change, with {fields} of the response and of the arguments; {applied}: who serves it
    # A question, with {arguments}; of several, the first one whose arguments were given. Of every DELETE one is made.
    confirm: str | Sequence[str] = ""
    asks: bool | None = None  # whether it asks; None: where it is a DELETE
    preview: str = ""  # MODULE.FUNCTION of app.cli.renderers that prints a dry run before the question
    needs_database: bool = True  # False: its options are all that it needs
    wait: Wait | None = None  # for what it begins
    parts: Parts | None = None
    beside: Mapping[str, Beside] = {}  # by the field of the document that they become
    fails: str = ""  # MODULE.FUNCTION of app.cli.renderers: whether a document means exit status 1
    quiet: str = ""  # the field that --quiet prints alone
    data: str = ""  # what --json calls the list of a page, instead of `data`
    only: Sequence[str] = ()  # the fields that --json shows; empty: all
    one_of: Sequence[str] = ()  # fields that exclude each other
    needs_one: bool = False  # of `one_of`
    # Records, and lists of records of which the command gives the first: each field of theirs is an option.
    inline: Sequence[str] = ()
    creates: bool = False  # what it would change, if that does not exist yet: the path names it
    creation_needs: Sequence[str] = ()  # fields of the body without which it would create what nobody meant
    replaces: Sequence[str] = ()  # fields of a merge patch whose pairs stand for all of them, and are not added to others
    shows: Mapping[str, str] = {}  # flags that only its renderer reads, as arguments, with their help
    render: str = ""  # MODULE.FUNCTION of app.cli.renderers that prints for people what columns cannot say
    shape: str = ""  # MODULE.FUNCTION that makes the document of --json
    json: str = ""  # that document, as help shows it, where `shape` makes another than the response
