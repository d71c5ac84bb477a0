"""The log says one sentence when an outage begins, and one when it is over."""

import logging

import asyncpg
import pytest

from app.store.postgres.outage_log import OutageLog


def test_an_outage_is_two_sentences_however_its_errors_differ(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outages = OutageLog(logging.getLogger("tests"), "Work is held up", "Work goes on")
    outages.note_success()
    errors = (asyncpg.InterfaceError("connection is closed"), ConnectionRefusedError(111, "refused"), TimeoutError())
    for error in (*errors, *errors):
        outages.note_failure(error)
    outages.note_success()
    outages.note_success()
    assert caplog.messages == ["Work is held up at the moment; trying again: InterfaceError: connection is closed", "Work goes on"]


def test_another_error_is_logged_whenever_it_differs(caplog: pytest.LogCaptureFixture) -> None:
    outages = OutageLog(logging.getLogger("tests"), "Work is held up", "Work goes on")
    for text in ("a", "a", "b"):
        outages.note_failure(LookupError(text))
    assert [message.rpartition(" ")[2] for message in caplog.messages] == ["a", "b"]
