"""Files that a configuration of TensorZero's names: templates and schemas, read only below one folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from app.domain.errors import BadConfiguration
from app.imports.source_files import MAX_CHARACTERS, MAX_FILES, read_source
from app.imports.source_table import SourceTable
from app.templating.errors import TemplateFault
from app.templating.source import scan_source

_MAX_DIGITS = 18


class Unreadable(Exception):
    """A file that cannot be read, which is reported; what names it cannot be brought."""


class ReferencedFiles:
    """Reads the files that the configuration names; the module says what `root` is for.

    `folders` has, for each path in the configuration, by where it stands, the folder that it is relative to.
    """

    def __init__(self, folders: Mapping[str, Path], root: Path) -> None:
        self._folders = folders
        self._root = root.resolve()
        self._texts: dict[Path, str] = {}
        self._characters = 0

    def folder_of(self, table: SourceTable, key: str) -> Path:
        """A folder that the configuration names."""
        name = table.text(key)
        return self._folders.get(table.path_of(key), self._root) / (name or "")

    def read_text(self, table: SourceTable, key: str) -> str | None:
        """The text of the file that the key names; None: the key is absent. Raises Unreadable."""
        path = table.path_of(key)
        present = key in table
        name = table.text(key)
        if name is None:
            if present:
                raise Unreadable  # the table has reported what it is
            return None
        return self._read(self._folders.get(path, self._root) / name, table, path)

    def read_template(self, table: SourceTable, key: str) -> str | None:
        """Returns what read_text() returns, without the line end at the end of the file.

        TensorZero's MiniJinja ignores that line end, and ours keeps it.
        """
        text = self.read_text(table, key)
        return None if text is None else _without_last_line_end(text)

    def read_json(self, table: SourceTable, key: str) -> dict[str, Any] | None:
        """The object in the file that the key names; None: the key is absent. Raises Unreadable."""
        text = self.read_text(table, key)
        if text is None:
            return None
        try:
            value = json.loads(text, parse_constant=_refuse_constant, parse_int=_read_integer)
        except (ValueError, RecursionError):
            raise _refused(table, table.path_of(key), "The file is not JSON, or nested too deeply.") from None
        if not isinstance(value, dict):
            raise _refused(table, table.path_of(key), "The file is no JSON Schema: it must be an object.")
        return cast("dict[str, Any]", value)

    def read_included(self, template: str, base: Path | None, table: SourceTable, path: str) -> dict[str, str]:
        """The templates that a template includes, and those include, by the names that they are included by. Raises Unreadable.

        `base` is the folder of such templates; None means that the configuration allows none.
        """
        included: dict[str, str] = {}
        pending = [template]
        while pending:
            for name in sorted(_includes(pending.pop())):
                if base is None:
                    raise _refused(table, path, "It includes templates, and gateway.template_filesystem_access has no base_path.")
                if name not in included:
                    if len(included) == MAX_FILES:
                        raise _refused(table, path, f"It includes more than {MAX_FILES} templates.")
                    included[name] = _without_last_line_end(self._read(base / name, table, path))
                    pending.append(included[name])
        return included

    def _read(self, file: Path, table: SourceTable, path: str) -> str:
        try:
            resolved = file.resolve()  # with all links followed
        except (OSError, RuntimeError, ValueError):
            raise _refused(table, path, "The file cannot be found.") from None
        if not resolved.is_relative_to(self._root):
            raise _refused(
                table,
                path,
                f"The file is outside of {str(self._root)!r}, with links followed: `--root FOLDER` reads below another one.",
            )
        if resolved not in self._texts:
            try:
                self._texts[resolved] = read_source(resolved)
            except BadConfiguration as fault:
                raise _refused(table, path, str(fault)) from None
        text = self._texts[resolved]
        self._characters += len(text)  # again, each time that it goes into the configuration
        if self._characters > MAX_CHARACTERS:
            raise BadConfiguration(f"Templates and schemas have more than {MAX_CHARACTERS:,} characters together.")
        return text


def _without_last_line_end(text: str) -> str:
    return text[:-1].removesuffix("\r") if text.endswith("\n") else text


def _includes(template: str) -> frozenset[str]:
    """The names of the templates that it includes; none of one that will be refused for what it is."""
    try:
        return scan_source(template).includes
    except TemplateFault:
        return frozenset()


def _refused(table: SourceTable, path: str, reason: str) -> Unreadable:
    table.report.leave_out(path, reason)
    return Unreadable()


def _read_integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("a number of more than 64 bits cannot be stored")
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are not JSON
