"""ModelFamily: what a model's name says (its line and version, however a host spells them), and the rules of that line and version."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from providers.profiles.rules_by_version import Version, rules_for_version

Rules = TypeVar("Rules")
RowsByLine = Mapping[str, Sequence[tuple[Version, Rules]]]


class ModelVersion(NamedTuple):
    """The family, line and version that a model's name states."""

    family: str
    # "" if the name has no known line.
    line: str
    # None: an alias of the newest version.
    version: Version | None
    # Whether a row names the version; True for an alias.
    is_known: bool


class ModelFamily(Generic[Rules]):
    """A family with its rules: rows of versions, oldest first, for each line; the line "" is for all other names.

    `pattern` is searched in a bare_name(); its groups `major` and `minor`, if any, are the version. A line's rows count where the name
    holds the line's words; the first one does. `read_version` replaces a version that a maker counts in another way, such as a date.
    """

    def __init__(
        self,
        title: str,
        pattern: str,
        rows: RowsByLine[Rules],
        read_version: Callable[[str, Version], Version] | None = None,
    ) -> None:
        self.title = title
        self._pattern = re.compile(pattern)
        self.rows = rows
        self._read_version = read_version

    def find(self, model: str) -> ModelVersion | None:
        """Returns the line and version that a name states, or None for a model of another family."""
        name = bare_name(model)
        matched = self._pattern.search(name)
        if matched is None:
            return None
        line = next((line for line in self.rows if line and re.search(rf"(?<![a-z]){line}(?![a-z])", name)), "")
        groups = matched.groupdict()
        version: Version | None = None
        if groups.get("major"):
            version = tuple(int(number) for number in (groups["major"], groups.get("minor") or "0"))
            version = version[:1] if version[1] == 0 else version
            if self._read_version is not None:
                version = self._read_version(line, version)
        rows = self.rows.get(line, ())
        return ModelVersion(self.title, line, version, version is None or any(version == row for row, _ in rows))

    def rules(self, model: str) -> Rules | None:
        """The rules of a model; None: it is of another family."""
        found = self.find(model)
        return None if found is None else rules_for_version(self.rows.get(found.line) or self.rows[""], found.version)


def bare_name(model: str) -> str:
    """A model's name without path, tag and release: `moonshotai/Kimi-K2.5`, `accounts/fireworks/models/kimi-k2p5`, `kimi-k2.5:free`.

    Fireworks writes the point of a version as `p`; Vertex's releases begin with `@`, Bedrock's, OpenRouter's and Ollama's with a colon.
    """
    name = model.rpartition("/")[2].lower().partition("@")[0].partition(":")[0]
    return _POINT.sub(".", name)


_POINT = re.compile(r"(?<=\d)p(?=\d)")
