"""What a provider makes of a body in one of its dialects."""

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
    """The body as it is sent, what was dropped of it, and how what constrains the answer was asked for."""
    body = Body.read(json.dumps(fields).encode())
    adapted = provider.adapt_request(body, dialect, may_drop, read_constraint(dialect, body))
    return json.loads(body.write()), adapted.dropped, adapted.constraint_plan
