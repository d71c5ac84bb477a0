"""Counts what the rows of a version of a dataset are, as they come and as erasures take them."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from msgspec import Struct, field

LineFormat = Literal["chat", "preference", "completion"]
LINE_FORMATS: tuple[LineFormat, ...] = get_args(LineFormat)

_INDEX = re.compile(r"\[\d+\]")
_MAX_DIFFERENT = 100
_OTHER = "(other)"


class DatasetCounts(Struct):
    """The numbers of a version's rows. `splits`, `outputs`: rows by each. `formats`: rows that can be written in each. `left_out`: by
    format, why the others cannot.

    `omitted`: rows by what OpenAI's chat has no field for. `skipped`: inferences that matched and got no row, by the reason.
    """

    splits: dict[str, int] = field(default_factory=dict[str, int])
    outputs: dict[str, int] = field(default_factory=dict[str, int])
    formats: dict[str, int] = field(default_factory=dict[str, int])
    left_out: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    omitted: dict[str, int] = field(default_factory=dict[str, int])
    skipped: dict[str, int] = field(default_factory=dict[str, int])

    def add_row(self, split: str | None, output: str, faults: Mapping[str, str], omitted: Iterable[str], *, by: int = 1) -> None:
        """Counts a row. `faults` has, by format, why that cannot say it. A `by` of -1 means that the row is gone."""
        if split is not None:
            _add(self.splits, split, by)
        _add(self.outputs, output, by)
        for format in LINE_FORMATS:
            if format in faults:
                _add(self.left_out.setdefault(format, {}), _INDEX.sub("[]", faults[format]), by)
            else:
                _add(self.formats, format, by)
        for name in omitted:
            _add(self.omitted, name, by)

    def add_skip(self, reason: str) -> None:
        _add(self.skipped, reason, 1)


def _add(counts: dict[str, int], name: str, by: int) -> None:
    if name not in counts and (by < 0 or len(counts) >= _MAX_DIFFERENT):
        name = _OTHER
    counts[name] = max(0, counts.get(name, 0) + by)
    if not counts[name]:
        del counts[name]
