"""Logs: one JSON object a line, without content or secrets."""

import json
import logging
import sys
import time
from contextvars import ContextVar
from typing import Any

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class RequestIds:
    """The ids of the request that a task works for, which its log lines carry. None: it is no inference, or belongs to no trace.

    It is small and holds nothing of the request: what is begun on the way (a connection, a task) may keep it for long.
    """

    __slots__ = ("inference_id", "is_over", "request_id", "trace_id")

    def __init__(self, inference_id: str | None, request_id: str, trace_id: str | None) -> None:
        self.inference_id = inference_id
        self.request_id = request_id
        self.trace_id = trace_id
        self.is_over = False  # whether the request has ended; whatever still runs is no part of it


current_request: ContextVar[RequestIds | None] = ContextVar("current_request", default=None)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
        }
        ids = current_request.get()
        if ids is not None and not ids.is_over:
            named = {"inference": ids.inference_id, "request_id": ids.request_id, "trace_id": ids.trace_id}
            fields |= {name: id for name, id in named.items() if id is not None}
        fields.update({key: value for key, value in vars(record).items() if key not in _STANDARD})
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def configure(level: str) -> None:
    """Send this process's logs to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
