"""Rewrites schemas that llguidance cannot enforce to ones it can, so that most texts that it leads to satisfy the original too.

llguidance ignores the keywords that remain, and every text is checked against the original schema. So a rewrite need not keep the
meaning: it may allow less, or too much where little of that is generated. Keywords are replaced in place, and references still resolve.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import jsonschema_rs
import msgspec
from llguidance import LLMatcher

Schema = dict[str, Any]

DRAFTS = (jsonschema_rs.Draft202012Validator, jsonschema_rs.Draft7Validator, jsonschema_rs.Draft4Validator)
MAX_BACKTRACKS = 100_000
MAX_REPEATED_BYTES = 16_384

NAMED_SUBSCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTED_SUBSCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
SUBSCHEMAS = ("items", "additionalProperties", "additionalItems", "if", "then", "else", "not", "contains", "propertyNames")
NO_PROPERTIES: Mapping[str, Any] = {}
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


def build_check(text: str) -> Callable[[str], bool] | None:
    """Whether a JSON text satisfies a schema: by the draft that it names, else by the first in which it is valid. None: by none.

    `format` is an annotation here, as in JSON Schema: llguidance enforces those that it knows.
    """
    schema = msgspec.json.decode(text)
    for draft in (jsonschema_rs.validator_for,) if "$schema" in as_object(schema) else DRAFTS:
        try:
            validator = draft(
                schema,
                validate_formats=False,
                retriever=refuse_fetch,
                pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS),
            )
        except (ValueError, jsonschema_rs.ReferencingError):
            continue
        return partial(satisfies, validator)
    return None


def satisfies(validator: jsonschema_rs.Validator, text: str) -> bool:
    try:
        return validator.is_valid(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        # Valid JSON with a number that is too large, or too deep, for a parser.
        return False


def refuse_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is not in the schema, and the sandbox fetches nothing.")


def rewrite_schema(text: str) -> str:
    schema = msgspec.json.decode(text)
    return msgspec.json.encode(rewrite(schema)).decode()


def rewrite(schema: Any, outer_properties: Mapping[str, Any] = NO_PROPERTIES) -> Any:
    """The schema with every subschema rewritten, the inner ones first.

    `outer_properties` are those of the schemas around it for the same value.
    """
    inner = dict(as_object(schema))
    if not inner:
        return schema
    properties = {**outer_properties, **as_object(inner.get("properties"))}
    for key in NAMED_SUBSCHEMAS:
        if named := as_object(inner.get(key)):
            inner[key] = {name: rewrite(part) for name, part in named.items()}
    for key in LISTED_SUBSCHEMAS:
        if listed := as_list(inner.get(key)):
            inner[key] = [rewrite(part, properties if key == "allOf" else NO_PROPERTIES) for part in listed]
    for key in SUBSCHEMAS:
        if part := as_object(inner.get(key)):
            inner[key] = rewrite(part)
    rewrite_conditions(inner, properties)
    for rewrite_keyword in (
        rewrite_dependencies,
        rewrite_negation,
        rewrite_contains,
        rewrite_unique_items,
        rewrite_property_names,
        rewrite_patterns,
        rewrite_unevaluated,
        rewrite_property_counts,
    ):
        rewrite_keyword(inner)
    return inner


def rewrite_dependencies(schema: Schema) -> None:
    """Makes all dependents required: then every dependency is met."""
    for key in ("dependencies", "dependentRequired", "dependentSchemas"):
        for dependency in as_object(schema.pop(key, None)).values():
            require(schema, as_list(dependency))
            if not isinstance(dependency, list):
                conjoin(schema, rewrite(dependency))


def rewrite_conditions(schema: Schema, properties: Mapping[str, Any]) -> None:
    """Rewrites `if` A `then` B `else` C: A and B, or C without A, where A is a value of a property whose values are listed.

    Elsewhere that A does not hold beside C is left to the check.
    """
    condition, met, unmet = (schema.pop(key, True) for key in ("if", "then", "else"))
    if condition is True:
        return
    others = {name: other_values(properties.get(name), part) for name, part in as_object(as_object(condition).get("properties")).items()}
    negations = [{"properties": {name: {"enum": values}}, "required": [name]} for name, values in others.items() if values]
    conjoin(schema, {"anyOf": [{"allOf": [condition, met]}, {"allOf": [unmet, *([{"anyOf": negations}] if negations else [])]}]})


def other_values(schema: object, excluded: object) -> list[Any]:
    """The values that a schema lists and another does not; none if one of them lists no values."""
    excluded_values = listed_values(as_object(excluded))
    return [each for each in listed_values(as_object(schema)) if excluded_values and each not in excluded_values]


def listed_values(schema: Schema) -> list[Any]:
    return [schema["const"]] if "const" in schema else as_list(schema.get("enum"))


def rewrite_negation(schema: Schema) -> None:
    """Values, types and single properties that are forbidden are left out; other negations are left to the check."""
    forbidden = as_object(schema.pop("not", None))
    keywords = set(forbidden)
    if keywords in ({"const"}, {"enum"}) and "enum" in schema:
        schema["enum"] = other_values(schema, forbidden)
    elif keywords == {"type"}:
        types = as_types(forbidden["type"])
        # Every integer is a number.
        types += ["integer"] if "number" in types else []
        schema["type"] = [each for each in as_types(schema.get("type", TYPES)) if each not in types]
    elif "required" in keywords <= {"required", "type"}:
        names = as_list(forbidden["required"])
        if len(names) == 1:
            schema["properties"] = {**as_object(schema.get("properties")), names[0]: False}


def rewrite_contains(schema: Schema) -> None:
    """The first items are those that the array must contain."""
    wanted, least = schema.pop("contains", None), schema.pop("minContains", 1)
    items = schema.get("items", True)
    if wanted is None or "prefixItems" in schema or isinstance(items, list) or not is_small([items, wanted], least):
        return
    schema["prefixItems"] = [{"allOf": [items, wanted]} if isinstance(items, dict) else wanted] * int(least)
    schema["minItems"] = max(least, schema.get("minItems", 0))


def rewrite_unique_items(schema: Schema) -> None:
    """Items of which there are few differ from the start; that others do is left to the check."""
    values = listed_values(as_object(schema.get("items"))) if schema.pop("uniqueItems", False) is True else []
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(values))
    if not values or "prefixItems" in schema:
        return
    schema["maxItems"] = min(most, len(values))
    if 2 <= least <= len(values):
        schema["prefixItems"] = [{"const": each} for each in values[:least]]
        schema["items"] = {"enum": values[least:]} if values[least:] else False
        schema["maxItems"] = min(most, least + 1, len(values))


def rewrite_property_names(schema: Schema) -> None:
    """Names of a set become properties; names with a pattern or a length become a pattern of properties."""
    names = as_object(schema.pop("propertyNames", None))
    value = schema.get("additionalProperties", True)
    if schema.get("patternProperties") or value is False:
        return
    listed = listed_values(names)
    if is_small(value, len(listed)):
        known = as_object(schema.get("properties"))
        schema["properties"] = {name: known.get(name, value) for name in listed}
        schema["additionalProperties"] = False
    elif pattern := name_pattern(names):
        schema["patternProperties"] = {pattern: value}
        schema["additionalProperties"] = False


def name_pattern(names: Schema) -> str | None:
    if "pattern" in names:
        return names["pattern"] if is_regex(names["pattern"]) else None
    least, most = names.get("minLength", 0), names.get("maxLength", "")
    return f"^[a-zA-Z0-9_ -]{{{least},{most}}}$" if least or most else None


def rewrite_patterns(schema: Schema) -> None:
    """Patterns with look-around are left to the check, and so are patterns of properties of which several may hold for one name."""
    if "pattern" in schema and not is_regex(schema["pattern"]):
        del schema["pattern"]
    patterns = as_object(schema.get("patternProperties"))
    usable = {pattern: value for pattern, value in patterns.items() if is_regex(pattern)}
    if usable and not is_compilable({"type": "object", "patternProperties": dict.fromkeys(usable, True)}):
        usable = dict(list(usable.items())[:1])
    if len(usable) < len(patterns):
        schema["patternProperties"] = usable
        schema["additionalProperties"] = False


def rewrite_unevaluated(schema: Schema) -> None:
    """Rewrites `unevaluated...` keywords as `additionalProperties` and `items`, unless other keywords evaluate some."""
    for key, plain in (("unevaluatedProperties", "additionalProperties"), ("unevaluatedItems", "items")):
        value = schema.pop(key, None)
        if value is not None and plain not in schema and not {"$ref", "allOf", "anyOf", "oneOf"} & set(schema):
            schema[plain] = value


def rewrite_property_counts(schema: Schema) -> None:
    """Rewrites property counts beside optional properties, which llguidance cannot count.

    As many properties are required as there must be, and no others are allowed.
    """
    least, most = schema.get("minProperties", 0), schema.get("maxProperties")
    properties = as_object(schema.get("properties"))
    required = as_list(schema.get("required"))
    optional = [name for name, part in properties.items() if part is not False and name not in required]
    if not optional or not (least or most is not None):
        return
    require(schema, optional[: max(0, least - len(required))])
    required = as_list(schema.get("required"))
    if least > len(required):
        return
    schema.pop("minProperties", None)
    if most is not None:
        del schema["maxProperties"]
        schema.pop("patternProperties", None)
        schema["properties"] = {name: part for name, part in properties.items() if name in required}
        schema["additionalProperties"] = False


def as_object(value: object) -> Schema:
    """The value if it is an object, else an empty one: the check is for a valid schema, not the rewrite."""
    return cast(Schema, value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def as_types(value: object) -> list[Any]:
    return [value] if isinstance(value, str) else list(cast(Sequence[Any], value))


def require(schema: Schema, names: Sequence[Any]) -> None:
    required = as_list(schema.get("required"))
    schema["required"] = [*required, *(name for name in names if name not in required)]


def conjoin(schema: Schema, other: Any) -> None:
    schema["allOf"] = [*as_list(schema.get("allOf")), other]


def is_small(part: object, times: int) -> bool:
    """Whether a part may be repeated so many times: repeats of repeats must not fill the memory."""
    return times > 0 and times * len(msgspec.json.encode(part)) <= MAX_REPEATED_BYTES


def is_regex(pattern: str) -> bool:
    return is_compilable({"type": "string", "pattern": pattern})


def is_compilable(schema: Schema) -> bool:
    return not LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(schema))
