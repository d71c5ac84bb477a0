"""What checks of constraints cost: the first time in the process that checks, and each time after that in the worker.

`python -m bench.guided`. Schemas are in JSONSchemaBench's style; processor time is that of the worker, and for a first check that of the
process that checks and its forks.
"""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

from app.gateway.checks import Checks
from providers.dialect import Ask
from providers.dialects.catalogue import DIALECTS
from providers.errors import Malformed

_ROUNDS = 9
_CALLS = 2_000
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_HI = [{"role": "user", "content": "Hello"}]


def wide(count: int) -> dict[str, Any]:
    kinds = ("string", "integer", "boolean", "number")
    each = {f"property_{at}": {"type": kinds[at % 4], "description": "What it is for."} for at in range(count)}
    return {"type": "object", "properties": each, "required": list(each)[::2], "additionalProperties": False}


def deep(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
    return schema


def fanned(count: int, word: str) -> dict[str, Any]:
    defs: dict[str, Any] = {"d0": {"type": "integer"}}
    for at in range(1, count):
        defs[f"d{at}"] = {word: [{"$ref": f"#/$defs/d{at - 1}"}, {"$ref": f"#/$defs/d{at - 1}"}]}
    return {"$defs": defs, "$ref": f"#/$defs/d{count - 1}"}


def alternatives(count: int) -> dict[str, Any]:
    branches = [{"type": "object", "properties": {"kind": {"const": at}, "value": wide(4)}, "required": ["kind"]} for at in range(count)]
    return {"oneOf": branches}


SCHEMAS: dict[str, Any] = {
    "a small object": wide(3),
    "nested 30 deep": deep(30),
    "oneOf of 40 objects": alternatives(40),
    "an enum of 5000": {"enum": [f"value {at}" for at in range(5000)]},
    "a recursive tree": {"$defs": {"n": {"properties": {"n": {"items": {"$ref": "#/$defs/n"}}}}}, "$ref": "#/$defs/n"},
    "patternProperties": {"patternProperties": {"^[a-z]{1,8}$": {"type": "integer"}, "^x-": {"type": "string"}}},
    "formats": {"properties": {each: {"type": "string", "format": each} for each in ("date-time", "uuid", "email", "uri", "ipv6")}},
    "50 kB": wide(650),
    "100 kB": wide(1300),
    "200 kB": wide(2600),
    "bomb: anyOf of references, 2^20": fanned(21, "anyOf"),
    "bomb: allOf of references, 2^200": fanned(201, "allOf"),
    "bomb: 6^12 products": {"allOf": [{"anyOf": [{"properties": {f"a{a}{b}": {"const": b}}} for b in range(6)]} for a in range(12)]},
    "bomb: nested 250 deep": deep(250),
    "bomb: maxLength 10^9": {"type": "string", "maxLength": 10**9},
    "bomb: minItems 10^6 within 10^6": {"minItems": 10**6, "items": {"type": "array", "minItems": 10**6, "items": {"type": "null"}}},
    "bomb: (a+)+": {"type": "string", "pattern": "^(a+)+$"},
    "bomb: a{1,100} four times nested": {"pattern": "^((((a{1,100}){1,100}){1,100}){1,100})$"},
}


def asked(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": _HI, **fields}).encode()


def opened(raw: bytes) -> Ask:
    return DIALECTS["openai_chat"].open(raw)


def spent_s(pid: int) -> float:
    """By the process that checks and its forks; in ticks of the kernel's clock."""
    told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, told[11:15])) * _TICK_S


async def first(checks: Checks, schema: Any, number: int) -> tuple[float, str]:
    """Milliseconds of the clock, queue and pipes included, and what was found."""
    ask = opened(asked(guided_json={"title": f"{number}", **schema}))
    began = time.perf_counter()
    try:
        await checks.constraint(ask, "key")
        found = "passes"
    except Malformed as refused:
        found = refused.message
    return (time.perf_counter() - began) * 1000, found


async def firsts(checks: Checks) -> None:
    await checks.constraint(opened(asked(guided_regex="a")), "key")
    assert checks.pid is not None
    print("A first check\n\n| schema | kB | processor ms (mean of 9) | clock ms (median) | found |\n|---|---|---|---|---|")
    for name, schema in SCHEMAS.items():
        before_s = spent_s(checks.pid)
        looks = [await first(checks, schema, number) for number in range(_ROUNDS)]
        spent_ms = (spent_s(checks.pid) - before_s) * 1000 / _ROUNDS
        size_kb = len(json.dumps(schema)) / 1000
        print(f"| {name} | {size_kb:.1f} | {spent_ms:.0f} | {median(took for took, _ in looks):.1f} | {looks[0][1][:90]} |")


async def each_us(look: Callable[[], Awaitable[Any] | Any]) -> float:
    """Processor microseconds of one call, awaited if it is to be."""
    rounds: list[float] = []
    for _ in range(_ROUNDS):
        began = time.process_time_ns()
        for _ in range(_CALLS):
            done = look()
            if done is not None and hasattr(done, "__await__"):
                await done
        rounds.append((time.process_time_ns() - began) / _CALLS / 1000)
    return median(rounds)


async def known(checks: Checks) -> None:
    tools: list[dict[str, Any]] = [{"type": "function", "function": {"name": "f", "description": "x" * 4000, "parameters": {}}}]
    asks = {
        "no constraint": asked(),
        "tools, none strict (4 kB)": asked(tools=tools),
        "a choice": asked(guided_choice=["yes", "no"]),
        "a regex": asked(guided_regex="[a-z]+"),
        "a small schema": asked(guided_json=wide(3)),
        "a schema of 10 kB": asked(guided_json=wide(130)),
        "a schema of 50 kB": asked(guided_json=wide(650)),
        "a schema of 100 kB": asked(guided_json=wide(1300)),
    }
    print("\nA known one: processor µs in the worker\n\n| ask | check | opening the ask |\n|---|---|---|")

    async def nothing() -> None:
        return

    empty = await each_us(nothing)
    for name, raw in asks.items():
        ask = opened(raw)
        try:
            await checks.constraint(ask, "key")
        except Malformed:
            continue
        check = await each_us(lambda ask=ask: checks.constraint(ask, "key"))
        opening = await each_us(lambda raw=raw: opened(raw))
        print(f"| {name} | {check:.2f} | {opening:.1f} |")
    print(f"\n(An empty coroutine: {empty:.2f}.)")


async def main() -> None:
    checks = Checks()
    checks.start()
    await firsts(checks)
    await known(checks)
    await checks.stop()


if __name__ == "__main__":
    asyncio.run(main())
