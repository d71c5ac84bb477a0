"""A request is sent again with the response that violated its constraint."""

import json
from typing import cast

import pytest

from app.gateway.large_body.body_size import LARGE_BYTES
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.media.fetcher import MediaFetcher
from app.gateway.request_translation.grown_chat import add_repair_messages
from app.settings import Settings
from providers.canonical.errors import ConstraintViolation
from providers.catalogue import DIALECTS
from providers.transport.loop_turns import LoopTurns
from tests.support.request_translation import make_source


@pytest.mark.parametrize("characters", [100, LARGE_BYTES + 1])
async def test_small_request_with_a_large_violation_is_translated_beside_the_loop(characters: int):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Count."}]}).encode()
    dialect = DIALECTS["openai_chat"]
    source = make_source(dialect.parse_request(body), body, dialect, cast(MediaFetcher, None), lambda field: False)
    large_requests = LargeRequests(Settings(), LoopTurns())
    violation = ConstraintViolation("It is no JSON.", param="response_format", response_text="a" * characters, usage=None)
    await add_repair_messages(source, violation, large_requests.of_team("t"))
    large_requests.close()
    assert source.is_slow_to_translate == (characters > LARGE_BYTES)
