"""The cost of checking a constraint: the first check, in the checking process, and repeated checks, in the worker.

`python -m bench.constraint_checks`. Schemas are in JSONSchemaBench's style. Processor time is that of the worker; for a first check, that
of the checking process and its forks.
"""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

from app.gateway.structured_output.constraint_checks import ConstraintChecks
from providers.canonical.errors import InvalidRequest
from providers.catalogue import DIALECTS
from providers.dialect import InboundRequest

_ROUNDS = 9
_CALLS = 2_000
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_MESSAGES = [{"role": "user", "content": "Hello"}]


def wide_object(count: int) -> dict[str, Any]:
    kinds = ("string", "integer", "boolean", "number")
    properties = {f"property_{index}": {"type": kinds[index % 4], "description": "What it is for."} for index in range(count)}
    return {"type": "object", "properties": properties, "required": list(properties)[::2], "additionalProperties": False}


def nested_object(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
    return schema


def fan_out_references(count: int, combinator: str) -> dict[str, Any]:
    defs: dict[str, Any] = {"d0": {"type": "integer"}}
    for index in range(1, count):
        defs[f"d{index}"] = {combinator: [{"$ref": f"#/$defs/d{index - 1}"}, {"$ref": f"#/$defs/d{index - 1}"}]}
    return {"$defs": defs, "$ref": f"#/$defs/d{count - 1}"}


def alternatives(count: int) -> dict[str, Any]:
    branches = [
        {"type": "object", "properties": {"kind": {"const": index}, "value": wide_object(4)}, "required": ["kind"]}
        for index in range(count)
    ]
    return {"oneOf": branches}


SCHEMAS: dict[str, Any] = {
    "a small object": wide_object(3),
    "nested 30 deep": nested_object(30),
    "oneOf of 40 objects": alternatives(40),
    "an enum of 5000": {"enum": [f"value {index}" for index in range(5000)]},
    "a recursive tree": {"$defs": {"n": {"properties": {"n": {"items": {"$ref": "#/$defs/n"}}}}}, "$ref": "#/$defs/n"},
    "patternProperties": {"patternProperties": {"^[a-z]{1,8}$": {"type": "integer"}, "^x-": {"type": "string"}}},
    "formats": {"properties": {each: {"type": "string", "format": each} for each in ("date-time", "uuid", "email", "uri", "ipv6")}},
    "50 kB": wide_object(650),
    "100 kB": wide_object(1300),
    "200 kB": wide_object(2600),
    "bomb: anyOf of references, 2^20": fan_out_references(21, "anyOf"),
    "bomb: allOf of references, 2^200": fan_out_references(201, "allOf"),
    "bomb: 6^12 products": {"allOf": [{"anyOf": [{"properties": {f"a{a}{b}": {"const": b}}} for b in range(6)]} for a in range(12)]},
    "bomb: nested 250 deep": nested_object(250),
    "bomb: maxLength 10^9": {"type": "string", "maxLength": 10**9},
    "bomb: minItems 10^6 within 10^6": {"minItems": 10**6, "items": {"type": "array", "minItems": 10**6, "items": {"type": "null"}}},
    "bomb: (a+)+": {"type": "string", "pattern": "^(a+)+$"},
    "bomb: a{1,100} four times nested": {"pattern": "^((((a{1,100}){1,100}){1,100}){1,100})$"},
}


def request_body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": _MESSAGES, **fields}).encode()


def parse_request(raw: bytes) -> InboundRequest:
    return DIALECTS["openai_chat"].parse_request(raw)


def cpu_spent_s(pid: int) -> float:
    """Seconds of a process and its forks, in ticks of the kernel's clock."""
    stat_fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, stat_fields[11:15])) * _TICK_S


async def measure_first_check(checks: ConstraintChecks, schema: Any, number: int) -> tuple[float, str]:
    """Milliseconds of wall time, queue and pipes included, and the outcome."""
    request = parse_request(request_body(guided_json={"title": f"{number}", **schema}))
    started_at = time.perf_counter()
    try:
        await checks.check_request(request, "key")
        outcome = "passes"
    except InvalidRequest as error:
        outcome = error.message
    return (time.perf_counter() - started_at) * 1000, outcome


async def measure_first_checks(checks: ConstraintChecks) -> None:
    await checks.check_request(parse_request(request_body(guided_regex="a")), "key")
    pid, _ = checks.pids
    assert pid is not None
    print("First check\n\n| schema | kB | processor ms (mean of 9) | wall ms (median) | outcome |\n|---|---|---|---|---|")
    for name, schema in SCHEMAS.items():
        before_s = cpu_spent_s(pid)
        measurements = [await measure_first_check(checks, schema, number) for number in range(_ROUNDS)]
        spent_ms = (cpu_spent_s(pid) - before_s) * 1000 / _ROUNDS
        size_kb = len(json.dumps(schema)) / 1000
        wall_ms = median(elapsed_ms for elapsed_ms, _ in measurements)
        print(f"| {name} | {size_kb:.1f} | {spent_ms:.0f} | {wall_ms:.1f} | {measurements[0][1][:90]} |")


async def measure_call_us(call: Callable[[], Awaitable[Any] | Any]) -> float:
    """Processor microseconds of one call; an awaitable result is awaited."""
    rounds: list[float] = []
    for _ in range(_ROUNDS):
        started_ns = time.process_time_ns()
        for _ in range(_CALLS):
            awaitable = call()
            if awaitable is not None and hasattr(awaitable, "__await__"):
                await awaitable
        rounds.append((time.process_time_ns() - started_ns) / _CALLS / 1000)
    return median(rounds)


async def measure_repeated_checks(checks: ConstraintChecks) -> None:
    tools: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f", "description": "x" * 4000, "parameters": {}}}]
    bodies = {
        "no constraint": request_body(),
        "tools, none strict (4 kB)": request_body(tools=tools),
        "a choice": request_body(guided_choice=["yes", "no"]),
        "a regex": request_body(guided_regex="[a-z]+"),
        "a small schema": request_body(guided_json=wide_object(3)),
        "a schema of 10 kB": request_body(guided_json=wide_object(130)),
        "a schema of 50 kB": request_body(guided_json=wide_object(650)),
        "a schema of 100 kB": request_body(guided_json=wide_object(1300)),
    }
    print("\nRepeated check: processor µs in the worker\n\n| request | check | parsing the request |\n|---|---|---|")

    async def do_nothing() -> None:
        return

    empty = await measure_call_us(do_nothing)
    for name, raw in bodies.items():
        request = parse_request(raw)
        try:
            await checks.check_request(request, "key")
        except InvalidRequest:
            continue
        check = await measure_call_us(lambda request=request: checks.check_request(request, "key"))
        parsing = await measure_call_us(lambda raw=raw: parse_request(raw))
        print(f"| {name} | {check:.2f} | {parsing:.1f} |")
    print(f"\n(An empty coroutine: {empty:.2f}.)")


async def main() -> None:
    checks = ConstraintChecks(response_wait_s=60)
    checks.start()
    await measure_first_checks(checks)
    await measure_repeated_checks(checks)
    await checks.stop()


if __name__ == "__main__":
    asyncio.run(main())
