"""Each shape that some host refuses reaches every adapter in a form that all take, or is refused by the caller's own name."""

import asyncio
import json
import re

import pytest

from providers.canonical.errors import InvalidRequest, OperationNotSupported, Unsupported
from providers.catalogue import build_provider
from tests.conformance.engine_tables import translate
from tests.conformance.field_table_requests import ENGINE_TARGETS, HOSTED_TARGETS, TableTarget
from tests.conformance.shapes import SHAPES, Shape

TARGETS = (*ENGINE_TARGETS, *HOSTED_TARGETS)
# What a refusal may name: a field of the caller's, or a place in it.
CALLERS_FIELDS = re.compile(r"(?:messages|input|tools|tool_choice|temperature|top_p|stop|stop_sequences)\b")


def fault_of(shape: Shape, api: str, target: TableTarget) -> str | None:
    """Returns what is wrong with the request that this target is sent, or None if nothing is."""
    provider = build_provider(target.adapter, target.adapter, target.options, None if target.is_hosted else "http://127.0.0.1:1")
    try:
        translated = asyncio.run(translate(provider.at_version(target.version), api, shape.bodies[api], target.model))
    except (Unsupported, InvalidRequest) as refusal:
        return None if CALLERS_FIELDS.match(refusal.param or "") else f"refused as {refusal.param}: {refusal.message}"
    except OperationNotSupported:
        return None
    if shape.reported and not translated.dropped:
        return "changed without a report"
    return shape.fault(json.loads(translated.raw))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_adapter_is_sent_a_form_that_every_host_takes(shape: Shape):
    faults = {(api, target.title): fault_of(shape, api, target) for api in shape.bodies for target in TARGETS}
    assert {cell: fault for cell, fault in faults.items() if fault is not None} == {}
