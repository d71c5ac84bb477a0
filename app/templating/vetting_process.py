"""The process that vetting.py starts: sets of templates in, a line of JSON each, verdicts out. A set that breaks its limits ends it."""

import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from app.templating.errors import RenderFault, TemplateFault
from app.templating.input_schema import InputSchema, compile_schema
from app.templating.templates import TEXT_VARIABLES, NamedTemplateFault, Templates
from app.templating.vetting import TemplateSet, Verdict

# Of processor time, for each set; it takes about a millisecond.
_CPU_LIMIT_S = 1.0
_MEMORY_BYTES = 1_000_000_000
_SAMPLE_TEXT = "A sample."
_SAMPLE_ITEMS = 3
_MAX_SAMPLE_DEPTH = 6


def main() -> None:
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    for line in sys.stdin.buffer.read().splitlines():
        signal.setitimer(signal.ITIMER_PROF, _CPU_LIMIT_S)
        verdict = _vet(msgspec.json.decode(line, type=TemplateSet))
        sys.stdout.buffer.write(msgspec.json.encode(verdict) + b"\n")
        sys.stdout.buffer.flush()


def _vet(templates: TemplateSet) -> Verdict:
    schemas: dict[str, InputSchema] = {}
    for name, schema in templates.schemas.items():
        try:
            schemas[name] = InputSchema(schema)
        except TemplateFault as fault:
            return Verdict(f"schemas.{name}", fault.message)
    for path, schema in templates.other_schemas.items():
        try:
            compile_schema(schema)
        except TemplateFault as fault:
            return Verdict(path, fault.message)
    try:
        compiled = Templates(templates.sources, schemas)
        compiled.check_variables()
    except NamedTemplateFault as fault:
        return Verdict(fault.name, fault.message, fault.line)
    for name in templates.sources:
        if name in TEXT_VARIABLES or name in schemas:
            sample = (
                {TEXT_VARIABLES[name]: _SAMPLE_TEXT}
                if name not in schemas
                else _sample(templates.schemas[name], templates.schemas[name], 0)
            )
            try:
                compiled.render_unchecked(name, cast("dict[str, Any]", sample))
            except RenderFault as fault:
                if fault.is_of_template:
                    return Verdict(name, fault.message)
    return Verdict()


def _sample(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    """Something that the schema may mean: good enough to see what a template does with it."""
    if not isinstance(schema, dict) or depth > _MAX_SAMPLE_DEPTH:
        return _SAMPLE_TEXT
    fields = cast("dict[str, Any]", schema)
    reference = fields.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Any = root
        for step in reference[2:].split("/"):
            target = cast("dict[str, Any]", target).get(step) if isinstance(target, dict) else None
        return _sample(target, root, depth + 1)
    for keyword in ("const", "default"):
        if keyword in fields:
            return fields[keyword]
    for keyword in ("enum", "examples"):
        if choices := cast("Sequence[Any]", fields.get(keyword) or ()):
            return choices[0]
    for keyword in ("anyOf", "oneOf", "allOf"):
        if choices := cast("Sequence[Any]", fields.get(keyword) or ()):
            return _sample(choices[0], root, depth + 1)
    kind = fields.get("type", "object" if "properties" in fields else "string")
    match cast("Sequence[str]", kind)[0] if isinstance(kind, list) else kind:
        case "object":
            properties = fields.get("properties")
            return {
                name: _sample(each, root, depth + 1)
                for name, each in (cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}).items()
            }
        case "array":
            return [_sample(fields.get("items"), root, depth + 1)] * _SAMPLE_ITEMS
        case "integer" | "number":
            return fields.get("minimum", 1)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return _SAMPLE_TEXT


if __name__ == "__main__":
    main()
