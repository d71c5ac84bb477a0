"""Exports while access is checked on the way: what is sent, and when it ends."""

from collections.abc import AsyncGenerator, Sequence
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

    author = Author("user", "1", "ann", "rest")
    transaction = cast("Any", SimpleNamespace())
    call = Call[Any, Any](first, author, asked, {}, None, None, None, None, transaction, transaction, Authentication(later), None)
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


async def test_what_cannot_be_checked_for_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_CHECK_ACCESS_S", 0.0)
    monkeypatch.setattr(export, "_MAX_UNCHECKED_S", 0.0)
    assert await read(principal("a"), [AWAY]) == (0, Unavailable)
