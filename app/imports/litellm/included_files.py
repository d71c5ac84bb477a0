"""The files that `include` of config.yaml names: their lists are appended, and their other sections take the place of those before."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from app.domain.errors import BadConfiguration
from app.imports.litellm.yaml_text import parse_yaml
from app.imports.report import Report
from app.imports.source_files import MAX_CHARACTERS, MAX_FILES, read_source

TWICE = "It is in the file twice: the last one counts, as in LiteLLM."


def with_included_files(document: Mapping[str, Any], folder: Path | None, report: Report) -> dict[str, Any]:
    """The document with the files that it includes. Raises BadConfiguration for files that cannot be read, or lie elsewhere.

    `folder` is that of the file, below which included ones lie; None means that none are read.
    """
    merged = dict(document)
    names = merged.get("include")
    if folder is None or not isinstance(names, list):
        return merged
    del merged["include"]
    if len(cast("list[Any]", names)) > MAX_FILES:
        raise BadConfiguration(f"include: it names more than {MAX_FILES} files.")
    characters = 0
    for at, name in enumerate(cast("list[Any]", names)):
        path = f"include[{at}]"
        text = read_source(_find(folder, name, path))
        characters += len(text)
        if characters > MAX_CHARACTERS:
            raise BadConfiguration(f"include: its files have more than {MAX_CHARACTERS:,} characters together.")
        included = parse_yaml(
            text, lambda key, path=path: report.changed(f"{path}: {key}", "It is in the file twice: the last one counts.")
        )
        if not isinstance(included, dict):
            raise BadConfiguration(f"{path}: the file is no mapping.")
        for key, value in cast("dict[str, Any]", included).items():
            before = merged.get(key)
            both = isinstance(before, list) and isinstance(value, list)
            merged[key] = [*cast("list[Any]", before), *cast("list[Any]", value)] if both else value
    return merged


def _find(folder: Path, name: Any, path: str) -> Path:
    if not isinstance(name, str):
        raise BadConfiguration(f"{path} must be the path of a file.")
    try:
        root, file = folder.resolve(), (folder / name).resolve()  # with all links followed
    except (OSError, RuntimeError, ValueError):
        raise BadConfiguration(f"{path}: the file cannot be found.") from None
    if not file.is_relative_to(root):
        raise BadConfiguration(f"{path}: the file is outside of {str(root)!r}, with links followed: move it there, and import again.")
    return file
