"""Validates the answers of language models against JSON schemas (Draft 2020-12), with the part of it that such answers need.

`check_schema` refuses other keywords before a model is asked: jsonschema ignores those that it does not know, and takes
quadratic time for some that it does (uniqueItems). `misfits` names places and rules of the schema and quotes nothing of the
value, which may be a part of a document. References are resolved within the schema alone: nothing is fetched.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.errors import BadJob

if TYPE_CHECKING:  # both take 40 ms, and few processes validate
    from jsonschema import Draft202012Validator, ValidationError

MOST = 10  # misfits that are reported; a model that is asked again needs no more
PATTERN_MAX = 10_000  # characters that a pattern is searched for in; it may be a slow one
KEYWORDS = {
    "type", "enum", "const", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "minLength",
    "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "anyOf", "oneOf", "allOf", "$ref",
    "$defs", "definitions", "title", "description", "default", "examples", "format", "$schema", "$id", "$comment", "deprecated",
    "discriminator",
}  # fmt: skip


def check_schema(schema: object) -> dict[str, Any]:
    """The schema itself, or `BadJob` with what is wrong with it."""
    from jsonschema import Draft202012Validator, SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    if not isinstance(schema, dict):
        raise BadJob("A schema is a dict, as Model.model_json_schema() of pydantic makes it.")
    try:
        Draft202012Validator.check_schema(schema)
        resolver = Registry[Any]().resolver_with_root(DRAFT202012.create_resource(schema))
        for part in _parts(schema):
            if unknown := part.keys() - KEYWORDS:
                raise BadJob(
                    f"The schema has the keyword {min(unknown)}, which is not supported here: put the rule into the prompt."
                )
            if "$ref" in part:
                resolver.lookup(part["$ref"])
    except SchemaError as error:
        raise BadJob(f"The schema is not valid at {error.json_path}: {error.message[:200]}.") from None
    except Unresolvable as error:
        raise BadJob(f"The schema refers to {error.ref[:80]!r}, which does not exist: use #/$defs/NAME.") from None
    except RecursionError:
        raise BadJob("The schema is nested too deeply.") from None
    return schema


def _parts(schema: object) -> Iterator[dict[str, Any]]:
    from referencing.jsonschema import DRAFT202012

    if isinstance(schema, dict):
        yield schema
        for inner in DRAFT202012.create_resource(schema).subresources():
            yield from _parts(inner.contents)


def is_strict(schema: dict[str, Any]) -> bool:
    """Whether it is of the narrower form that OpenAI can guarantee: all properties needed, and no others."""
    objects = [part for part in _parts(schema) if "properties" in part or part.get("type") == "object"]
    return schema.get("type") == "object" and all(
        part.get("additionalProperties") is False and set(part.get("required", ())) == part.get("properties", {}).keys()
        for part in objects
    )


def misfits(schema: dict[str, Any], value: object) -> list[str]:
    """Sentences about what does not fit, without quoting the value; empty when all fits."""
    try:
        errors = list(islice(_validator(schema).iter_errors(value), MOST))
    except RecursionError:
        return ["the answer is nested too deeply"]
    return list(dict.fromkeys(_sentence(schema, error) for error in errors))


def _validator(schema: dict[str, Any]) -> "Draft202012Validator":
    from referencing import Registry

    return _bounded()(schema, registry=Registry())  # an empty one: the default registry fetches what it does not have


@cache
def _bounded() -> "type[Draft202012Validator]":
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import extend

    def fits_pattern(_: object, pattern: str, value: object, __: object) -> Iterator[ValidationError]:
        if isinstance(value, str) and (len(value) > PATTERN_MAX or not re.search(pattern, value)):
            yield ValidationError("")

    made: type[Draft202012Validator] = extend(Draft202012Validator, {"pattern": fits_pattern})  # type: ignore[no-untyped-call]
    return made


def _sentence(schema: dict[str, Any], error: "ValidationError") -> str:
    place, known = "the answer", {name for part in _parts(schema) for name in part.get("properties", {})}
    for step in error.absolute_path:
        inner = f"{place}[{step}]" if isinstance(step, int) else f"{place}.{step}"
        place = inner if isinstance(step, int) or step in known else f"a further property of {place}"
    keyword: Any = error.validator
    rule: Any = error.validator_value
    value: Any = error.instance
    match keyword:
        case None:
            return f"{place} has a value where its schema allows none"
        case "type":
            return f"{place} is not of the type {rule if isinstance(rule, str) else ' or '.join(rule)}"
        case "required":
            return f"{place} lacks {', '.join(name for name in rule if name not in value)}"
        case "additionalProperties":
            return f"{place} has a property that its schema does not name"
        case "anyOf" | "oneOf":
            return f"{place} fits {'none' if error.context else 'more than one'} of the forms of its {keyword}"
        case _:
            return f"{place} does not fit its {keyword}, {json.dumps(rule, ensure_ascii=False)[:200]}"
