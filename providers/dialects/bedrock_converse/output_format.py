"""Output constraints: a schema in `outputConfig`, or an instruction for models without that field.

Source: https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html, read 2026-11; aws_bedrock/04 and 14 of the recordings.
"""

from typing import Any

from providers.canonical.output_format import JsonObject, JsonSchema, OutputFormat
from providers.drop_policy import DropPolicy
from providers.profiles.bedrock.families import Family

_JSON_INSTRUCTION = "Answer with JSON and with nothing else: no words before or after it, and no code fence around it."


def write_format(output: OutputFormat | None, family: Family, drop_policy: DropPolicy) -> tuple[dict[str, Any] | None, str | None]:
    """The outputConfig, or an instruction for the system prompt. Whether the model obeys an instruction is checked on the response."""
    match output:
        case None:
            return None, None
        case JsonObject():
            return None, _JSON_INSTRUCTION.replace("JSON", "a JSON object", 1)
        case JsonSchema():
            if output.strict is False:
                drop_policy.drop_hint("output.strict")
            schema = bytes(output.schema).decode()
            if not family.supports_schemas:
                return None, f"{_JSON_INSTRUCTION} It is valid by this JSON schema: {schema}"
            schema_fields = {"schema": schema, "name": output.name, "description": output.description}
            json_schema = {key: value for key, value in schema_fields.items() if value is not None}
            return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": json_schema}}}, None
        case _:
            drop_policy.drop_or_refuse("output", "it constrains answers by JSON schemas only.")
            return None, None
