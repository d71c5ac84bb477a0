"""The body that a provider sends for a request in one of its dialects."""

import json
from collections.abc import Callable
from typing import Any

from providers.adapters.provider import Provider
from providers.canonical.raw_json import Body
from providers.structured_output import ConstraintPlan, read_constraint
from tests.support.request_translation import drop_nothing


def adapt_body(
    provider: Provider, fields: dict[str, Any], may_drop: Callable[[str], bool] = drop_nothing, dialect: str = "openai_chat"
) -> tuple[dict[str, Any], list[str], ConstraintPlan | None]:
    """The body that is sent, the dropped fields, and the plan for the output constraint (None: there is none)."""
    body = Body.read(json.dumps(fields).encode())
    adapted = provider.adapt_request(body, dialect, may_drop, read_constraint(dialect, body))
    return json.loads(body.write()), adapted.dropped, adapted.constraint_plan
