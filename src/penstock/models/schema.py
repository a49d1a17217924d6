"""Whether a value fits a JSON schema: the part of JSON Schema that descriptions of answers need, and no more.

`check_schema` refuses what is outside of that part before anybody is asked, so that a rule is never silently left out.
`misfits` tells what does not fit by places and rules of the schema, and quotes nothing of the value: what a model says may
be somebody's document.
"""

import re
from collections.abc import Iterator
from typing import Any

from penstock.errors import BadJob

MOST = 10  # misfits that are told; a model that is asked again needs no more
DEEPEST = 100
PATTERN_MAX = 10_000  # characters that a pattern is looked for in; it may be a slow one

TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "number": (int, float),
    "integer": (int, float),
}
NOTES = {
    "title",
    "description",
    "default",
    "examples",
    "format",
    "$schema",
    "$id",
    "$comment",
    "deprecated",
    "discriminator",
}
RULES = {
    "type", "enum", "const", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "minLength",
    "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "anyOf", "oneOf", "allOf", "$ref",
    "$defs", "definitions",
}  # fmt: skip


def check_schema(schema: object) -> dict[str, Any]:
    """The schema itself, or `BadJob` with the keyword that is not understood here."""
    if not isinstance(schema, dict):
        raise BadJob("A schema is a dict, as Model.model_json_schema() of pydantic makes it.")
    for place, part in _parts(schema, "the schema", 0):
        if unknown := part.keys() - RULES - NOTES:
            raise BadJob(f"{place} has the keyword {min(unknown)}, which is not checked here: say it in the prompt.")
        kinds = part.get("type", [])
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            if kind not in TYPES:
                raise BadJob(f"{place} has the type {str(kind)[:40]!r}: use {', '.join(TYPES)}.")
        if "$ref" in part:
            _resolve(schema, part["$ref"])
        if "pattern" in part:
            try:
                re.compile(part["pattern"])
            except (re.error, TypeError) as error:
                raise BadJob(f"The pattern of {place} cannot be read: {error}.") from None
    return schema


def _parts(schema: Any, place: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """All schemas in a schema, with where they are."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict) or depth > DEEPEST:
        raise BadJob(f"{place} is no schema, or too deep.")
    yield place, schema
    for name in ("properties", "$defs", "definitions"):
        inner = schema.get(name, {})
        if not isinstance(inner, dict):
            raise BadJob(f"{name} of {place} must be a dict.")
        for key, part in inner.items():
            yield from _parts(part, f"{place}.{key}", depth + 1)
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from _parts(schema[name], f"{place}.{name}", depth + 1)
    for name in ("anyOf", "oneOf", "allOf"):
        for number, part in enumerate(schema.get(name, [])):
            yield from _parts(part, f"{place}.{name}[{number}]", depth + 1)


def is_strict(schema: dict[str, Any]) -> bool:
    """Whether it is of the narrower form that OpenAI can guarantee: all properties needed, and no others."""
    objects = [part for _, part in _parts(schema, "", 0) if "properties" in part or part.get("type") == "object"]
    return schema.get("type") == "object" and all(
        part.get("additionalProperties") is False and set(part.get("required", ())) == part.get("properties", {}).keys()
        for part in objects
    )


def misfits(schema: dict[str, Any], value: object) -> list[str]:
    """What does not fit, in sentences without anything of the value; empty when all does."""
    found: list[str] = []
    try:
        for problem in _misfits(schema, schema, value, "the answer"):
            found.append(problem)
            if len(found) >= MOST:
                break
    except RecursionError:
        return ["the answer is nested too deeply"]
    return found


def _resolve(root: dict[str, Any], reference: object) -> Any:
    if reference == "#":
        return root
    parts = str(reference).split("/")
    if len(parts) == 3 and parts[0] == "#" and parts[1] in ("$defs", "definitions"):
        found = root.get(parts[1], {}).get(parts[2].replace("~1", "/").replace("~0", "~"))
        if found is not None:
            return found
    raise BadJob(f"The schema refers to {str(reference)[:80]!r}, which is not there: use #/$defs/NAME.")


def _misfits(root: dict[str, Any], schema: Any, value: object, place: str) -> Iterator[str]:
    if schema is True:
        return
    if schema is False:
        yield f"{place} must not be there"
        return
    if "$ref" in schema:
        yield from _misfits(root, _resolve(root, schema["$ref"]), value, place)
    kinds = schema.get("type")
    if kinds is not None:
        names = kinds if isinstance(kinds, list) else [kinds]
        if not any(_is_a(name, value) for name in names):
            yield f"{place} is not of the type {' or '.join(names)}"
            return
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        yield f"{place} is none of the values of its enum"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{place} is not its only allowed value"
    match value:
        case dict():
            yield from _object_misfits(root, schema, value, place)
        case list():
            yield from _array_misfits(root, schema, value, place)
        case str():
            yield from _text_misfits(schema, value, place)
        case int() | float() if not isinstance(value, bool):
            yield from _number_misfits(schema, value, place)
    yield from _choice_misfits(root, schema, value, place)


def _is_a(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES[name])


def _same(one: object, other: object) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _object_misfits(root: dict[str, Any], schema: Any, value: dict[str, Any], place: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place} lacks {name}"
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, part in value.items():
        if name in properties:
            yield from _misfits(root, properties[name], part, f"{place}.{name}")
        elif others is False:
            yield f"{place} has a property that its schema does not name"
        else:
            yield from _misfits(root, others, part, f"a further property of {place}")


def _array_misfits(root: dict[str, Any], schema: Any, value: list[Any], place: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{place} has {len(value)} items, not {_span(schema, 'minItems', 'maxItems')}"
    for number, part in enumerate(value):
        yield from _misfits(root, schema.get("items", True), part, f"{place}[{number}]")


def _text_misfits(schema: Any, value: str, place: str) -> Iterator[str]:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{place} has {len(value)} characters, not {_span(schema, 'minLength', 'maxLength')}"
    elif "pattern" in schema and (len(value) > PATTERN_MAX or not re.search(schema["pattern"], value)):
        yield f"{place} does not match its pattern"


def _number_misfits(schema: Any, value: float, place: str) -> Iterator[str]:
    if (
        value < schema.get("minimum", value)
        or value > schema.get("maximum", value)
        or ("exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"])
        or ("exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"])
    ):
        yield f"{place} is out of its range"


def _choice_misfits(root: dict[str, Any], schema: Any, value: object, place: str) -> Iterator[str]:
    for part in schema.get("allOf", ()):
        yield from _misfits(root, part, value, place)
    for name in ("anyOf", "oneOf"):
        if name in schema:
            fitting = sum(not any(_misfits(root, part, value, place)) for part in schema[name])
            if fitting == 0 or (name == "oneOf" and fitting > 1):
                yield f"{place} fits {fitting} of the forms of its {name}"


def _span(schema: Any, least: str, most: str) -> str:
    return f"{schema.get(least, 0)} to {schema[most]}" if most in schema else f"at least {schema.get(least, 0)}"
