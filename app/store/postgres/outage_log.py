"""The log of an outage of Postgres.

It has one sentence when some work is held up, and one when it goes on, however often the work was tried.
"""

import logging

from app.store.postgres.db_errors import describe_without_values, is_outage


class OutageLog:
    """One for each work that is tried again by itself. `held_up` and `goes_on` are sentences about it, without their full stop."""

    def __init__(self, logger: logging.Logger, held_up: str, goes_on: str) -> None:
        self._logger = logger
        self._held_up = held_up
        self._goes_on = goes_on
        self._last: str | None = None
        self.is_outage = False

    def note_failure(self, error: BaseException) -> None:
        """While Postgres goes and comes its errors differ, which is one outage; any other error is logged whenever it differs."""
        was_outage, self.is_outage = self.is_outage, is_outage(error)
        described = describe_without_values(error)
        if described != self._last and not (was_outage and self.is_outage):
            self._logger.warning("%s at the moment; trying again: %s", self._held_up, described)
        self._last = described

    def note_success(self) -> None:
        if self._last is not None:
            self._logger.info("%s", self._goes_on)
        self._last, self.is_outage = None, False
