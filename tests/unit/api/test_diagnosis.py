"""The diagnosis of the admin API: whoever asks while one is made, or soon after it, starts no further process."""

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from app.api.admin.fleet import doctor
from providers.canonical.errors import Unavailable

REPORT = '{"healthy": true, "findings": []}'


def begun_by(monkeypatch: pytest.MonkeyPatch, folder: Path, printed: str) -> Path:
    """Has the diagnosis made by a command that prints a text. Each of them writes a byte to the file."""
    begun = folder / "begun"
    code = f"open({str(begun)!r}, 'a').write('x'); print({printed!r})"
    monkeypatch.setattr(doctor, "_COMMAND", (sys.executable, "-c", code))
    return begun


async def test_one_is_made_for_everybody_who_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun = begun_by(monkeypatch, tmp_path, REPORT)
    [operation] = doctor.operations()
    answers = await asyncio.gather(*(operation.handler(cast(Any, None)) for _ in range(10)))
    assert all(each.body.healthy for each in answers) and begun.read_text() == "x"


async def test_one_that_failed_is_not_begun_again_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun = begun_by(monkeypatch, tmp_path, "no JSON")
    [operation] = doctor.operations()
    failed = await asyncio.gather(*(operation.handler(cast(Any, None)) for _ in range(10)), return_exceptions=True)
    assert all(isinstance(each, Unavailable) for each in failed) and begun.read_text() == "x"
    monkeypatch.setattr(doctor, "_FAILED_S", 0.0)
    [another] = doctor.operations()
    for _ in range(2):
        with pytest.raises(Unavailable):
            await another.handler(cast(Any, None))
    assert begun.read_text() == "xxx"


async def test_it_is_unavailable_where_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "_COMMAND", (str(tmp_path / "missing"),))
    [operation] = doctor.operations()
    with pytest.raises(Unavailable):
        await operation.handler(cast(Any, None))
