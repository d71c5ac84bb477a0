"""Vetting: templates are compiled and rendered in a process of their own before they are stored, with an input made from their schema.

A template can end the process that compiles it, or take seconds without fuel (lists that hold themselves twice, 30 times over). In a
gateway that would stop every request; here it is a line of an error. What it does only with another input is not found.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from app.templating.errors import TemplateFault

_TIMEOUT_S = 60.0
# As for the checking process: it inherits no secrets.
_INHERITED_ENVIRONMENT = ("PATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LANG")
_ARGUMENTS = ("-P", "-m", "app.templating.vetting_process")
_KNOWN_SETS = 50_000


class TemplateSet(Struct, frozen=True):
    """The templates of one variant, with the schemas of its function."""

    sources: Mapping[str, str]
    schemas: Mapping[str, Mapping[str, Any]]
    other_schemas: Mapping[str, Mapping[str, Any]] = {}  # those which only have to be valid, by their path


class Verdict(Struct, frozen=True):
    """The result of a check. An empty `message` means that nothing is wrong.

    `place` is the name of a template or the path of a schema, or empty for the set as a whole.
    """

    place: str = ""
    message: str = ""
    line: int | None = None


_known: dict[bytes, Verdict] = {}
_decode = msgspec.json.Decoder(Verdict).decode


def vet(sets: Sequence[TemplateSet]) -> list[Verdict]:
    """One verdict for each set. Blocks: not for an event loop. What was vetted before in this process is remembered."""
    encoded = [msgspec.json.encode(each, order="deterministic") for each in sets]
    unknown = list(dict.fromkeys(each for each in encoded if each not in _known))
    while unknown:
        verdicts = _run(unknown)
        if len(_known) > _KNOWN_SETS:
            _known.clear()
        _known.update(zip(unknown, verdicts, strict=False))
        unknown = unknown[len(verdicts) :]
    return [_known[each] for each in encoded]


def _run(unknown: Sequence[bytes]) -> list[Verdict]:
    """The verdicts of those sets that the process has come to: the last one may have ended it."""
    try:
        finished = subprocess.run(
            [sys.executable, *_ARGUMENTS],
            input=b"\n".join(unknown),
            capture_output=True,
            env=_environment(),
            cwd="/",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TemplateFault("the machine is too busy to check the templates: try again") from None
    verdicts = [_decode(line) for line in finished.stdout.splitlines()]
    if len(verdicts) < len(unknown):
        if not verdicts and finished.returncode == 1:
            raise TemplateFault(f"the templates cannot be checked: {finished.stderr.decode(errors='replace')[-300:]}")
        verdicts.append(Verdict(message="compiling or rendering it takes too long, or too much memory"))
    return verdicts


def _environment() -> dict[str, str]:
    environment = {name: os.environ[name] for name in _INHERITED_ENVIRONMENT if name in os.environ}
    # Its entries are relative to our working folder.
    if import_folders := [os.path.abspath(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]:
        environment["PYTHONPATH"] = os.pathsep.join(import_folders)
    return environment
