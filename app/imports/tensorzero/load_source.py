"""The files of a configuration of TensorZero's as one document: a file, a folder of them, or what a pattern names."""

import glob
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from app.domain.errors import BadConfiguration
from app.imports.source_files import MAX_CHARACTERS, MAX_FILES, read_source
from app.imports.source_table import join_path
from app.store.configuration.config_file import parse_toml

_PATTERN_CHARACTERS = "*?["
_MAX_DEPTH = 50


class Source(Struct, frozen=True):
    """A configuration of TensorZero, read from its files."""

    document: Mapping[str, Any]  # all files together
    folders: Mapping[str, Path]  # of each text in `document`, by its path, the folder of its file, to which it may be relative
    root: Path  # the folder that holds all of the files


def load_source(source: str) -> Source:
    """Raises BadConfiguration for files that cannot be read, are not TOML, or contradict each other."""
    files, root = _find_files(source)
    document: dict[str, Any] = {}
    folders: dict[str, Path] = {}
    origins: dict[str, Path] = {}
    characters = 0
    for file in files:
        try:
            text = read_source(file)
            tables = parse_toml(text)
        except BadConfiguration as fault:
            raise BadConfiguration(f"{file}: {fault}" if len(files) > 1 and str(file) not in str(fault) else str(fault)) from None
        characters += len(text)
        if characters > MAX_CHARACTERS:
            raise BadConfiguration(f"{source!r:.200} names files with more than {MAX_CHARACTERS:,} characters together.")
        _merge(document, tables, _Merge(file, folders, origins), "", 0)
    return Source(document, folders, root)


class _Merge(Struct, frozen=True):
    file: Path
    folders: dict[str, Path]
    origins: dict[str, Path]


def _find_files(source: str) -> tuple[list[Path], Path]:
    path = Path(source)
    if path.is_dir():
        files, root = [each for each in islice(path.rglob("*.toml"), MAX_FILES + 1) if each.is_file()], path
    elif any(character in source for character in _PATTERN_CHARACTERS) and not path.exists():
        files = [Path(each) for each in islice(glob.iglob(source, recursive=True), MAX_FILES + 1) if Path(each).is_file()]
        root = _fixed_part(path)
    else:
        return [path], path.parent
    if not files:
        raise BadConfiguration(f"{source!r:.200} names no file that ends in .toml.")
    if len(files) > MAX_FILES:
        raise BadConfiguration(f"{source!r:.200} names more than {MAX_FILES} files.")
    return sorted(files), root


def _fixed_part(pattern: Path) -> Path:
    """The folders before the first that is a pattern."""
    fixed: list[str] = []
    for part in pattern.parts[:-1]:
        if any(character in part for character in _PATTERN_CHARACTERS):
            break
        fixed.append(part)
    return Path(*fixed)


def _merge(into: dict[str, Any], tables: Mapping[str, Any], merge: _Merge, path: str, depth: int) -> None:
    """Tables of several files are one; anything else may be in one file only."""
    if depth > _MAX_DEPTH:
        raise BadConfiguration(f"{merge.file}: it is nested more than {_MAX_DEPTH} levels deep, which no configuration needs.")
    for key, value in tables.items():
        own_path = join_path(path, key)
        if isinstance(value, dict):
            below = into.setdefault(key, {})
            if not isinstance(below, dict):
                raise BadConfiguration(f"{own_path} is a table in {merge.file}, and none in {merge.origins[own_path]}.")
            _merge(cast("dict[str, Any]", below), cast("dict[str, Any]", value), merge, own_path, depth + 1)
            continue
        if key in into:
            other = merge.origins.get(own_path, merge.file)
            raise BadConfiguration(f"{own_path} is in {merge.file}, and in {other}: one of them must go.")
        into[key] = value
        merge.origins[own_path] = merge.file
        if isinstance(value, str):
            merge.folders[own_path] = merge.file.parent
