"""Exports while access is checked on the way: what is sent, and when it ends."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.api.rest import export
from app.api.rest.export import export_answer
from app.api.rest.operation import Call
from app.store.access.roles import Grant, Permission, Principal
from app.store.postgres.audit_log import Author
from providers.canonical.errors import CallerCredentialRequired, NarthexError, NotAllowed, Unavailable


class Authentication:
    """Answers one after the other, then the last one for ever."""

    def __init__(self, answers: Sequence[Principal | NarthexError]) -> None:
        self.answers = list(answers)

    async def __call__(self) -> Principal:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, NarthexError):
            raise answer
        return answer


def principal(*teams: str | None) -> Principal:
    return Principal("user", "1", "ann", tuple(Grant("auditor", team) for team in teams))


AWAY = Unavailable("The token cannot be checked at the moment.")


def call_of(
    first: Principal,
    later: Sequence[Principal | NarthexError],
    asked: Permission = "audit:read",
    break_off: Callable[[], None] | None = None,
) -> Call[Any, Any]:
    author, none = Author("user", "1", "ann", "rest"), cast("Any", SimpleNamespace())
    return Call[Any, Any](first, author, asked, {}, None, None, None, None, none, none, Authentication(later), None, break_off)


async def read(
    first: Principal, later: Sequence[Principal | NarthexError], asked: Permission = "audit:read"
) -> tuple[int, type[Exception] | None]:
    """Returns how many of three pieces come, and the type of the error that ends them, or None."""
    closed: list[bool] = []

    async def pieces() -> AsyncGenerator[bytes]:
        try:
            for _ in range(3):
                yield b"x"
        finally:
            closed.append(True)

    call = call_of(first, later, asked)
    call.visible_teams()
    body = export_answer(call, pieces(), "file", "text/csv").body
    received, fault = 0, None
    try:
        async for _ in body:
            received += 1
    except NarthexError as error:
        fault = type(error)
    assert closed == [True]
    return received, fault


@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        pytest.param(principal("a"), [principal("a")], (3, None), id="kept"),
        pytest.param(principal("a"), [principal("a", "b")], (3, None), id="more teams"),
        pytest.param(principal("a"), [principal(None)], (3, None), id="all teams"),
        pytest.param(principal("a", "b"), [principal("a", "b"), principal("a")], (1, NotAllowed), id="fewer teams"),
        pytest.param(principal(None), [principal("a")], (0, NotAllowed), id="no longer all teams"),
        pytest.param(principal("a"), [principal("a"), CallerCredentialRequired("Revoked.")], (1, CallerCredentialRequired), id="revoked"),
        pytest.param(principal("a"), [AWAY, AWAY, principal("a")], (3, None), id="away for a while"),
        pytest.param(principal("a"), [AWAY, CallerCredentialRequired("Revoked.")], (0, CallerCredentialRequired), id="revoked while away"),
    ],
)
async def test_what_is_sent_was_permitted_a_moment_ago(
    monkeypatch: pytest.MonkeyPatch,
    first: Principal,
    later: Sequence[Principal | NarthexError],
    expected: tuple[int, type[Exception] | None],
) -> None:
    monkeypatch.setattr(export, "_CHECK_ACCESS_S", 0.0)
    monkeypatch.setattr(export, "_RETRY_S", 0.0)
    assert await read(first, later) == expected


@pytest.mark.parametrize(
    ("fault", "reason", "has_traceback"),
    [
        (ConnectionResetError("Postgres went away."), "Postgres went away.", False),
        (NotAllowed("Meanwhile your role ended."), "Meanwhile your role ended.", False),
        (KeyError("a fault of ours"), "a fault of ours", True),
    ],
    ids=["the database is away", "access ended", "a fault of ours"],
)
async def test_what_fails_on_the_way_closes_the_connection_and_logs_one_line(
    caplog: pytest.LogCaptureFixture, fault: Exception, reason: str, has_traceback: bool
) -> None:
    is_closed = asyncio.Event()

    async def pieces() -> AsyncGenerator[bytes]:
        yield b"x"
        raise fault

    call = call_of(principal("a"), [principal("a")], break_off=is_closed.set)
    body = export_answer(call, pieces(), "file", "text/csv").body

    async def send() -> list[bytes]:
        return [piece async for piece in body]

    sending = asyncio.create_task(send())
    await is_closed.wait()
    assert not sending.done()  # the end of the stream would say that it is complete
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    (line,) = caplog.records
    assert line.message == "an export was broken off" and reason in vars(line)["reason"] and bool(line.exc_info) is has_traceback


async def test_what_cannot_be_checked_for_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_CHECK_ACCESS_S", 0.0)
    monkeypatch.setattr(export, "_MAX_UNCHECKED_S", 0.0)
    assert await read(principal("a"), [AWAY]) == (0, Unavailable)
