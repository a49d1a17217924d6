"""`/docs`: the reference of the HTTP API, rendered from its OpenAPI document. It needs no script and no other site."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from markupsafe import Markup, escape

from penstock.web.dependencies import Reads
from penstock.web.pages.render import prose, show

routes = APIRouter(include_in_schema=False)

TITLES = {
    "engine": "Jobs",
    "jobs": "Jobs",
    "inbox": "Sources",
    "status": "Status and health",
    "health": "Status and health",
}
JSON = "application/json"
CONTAINERS = {"array": "list", "object": "map"}
FORMATS = {"date-time": "time", "binary": "bytes"}
LARGE = 2**31  # a bound that no caller comes near is not worth a line

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a field of a body or an answer."""

    name: str
    type: Markup
    place: str  # path, query, header; empty for a field
    required: bool
    text: Markup


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path."""

    id: str
    method: str
    path: str
    summary: Markup
    scope: str  # of the key; empty if none is needed
    parameters: list[Field]
    bodies: list[tuple[str, Markup, list[Field]]]  # media type, type, fields
    answers: list[tuple[str, str, Markup]]  # status, media type, type


@dataclass(frozen=True, slots=True)
class Record:
    """A named type of the answers."""

    name: str
    text: Markup
    fields: list[Field]


@routes.get("/docs", response_class=Response)
async def show_reference(caller: Reads, request: Request) -> Response:
    """The reference."""
    document = request.app.openapi()
    groups: dict[str, list[Operation]] = {}
    for tag, operation in read_operations(document):
        groups.setdefault(TITLES.get(tag, tag.capitalize()), []).append(operation)
    records = [
        Record(_short(name), prose(schema.get("description", "")), read_fields(schema))
        for name, schema in sorted(document["components"]["schemas"].items())
        if schema.get("properties")
    ]
    return show(request, caller, "reference.html", groups=groups, records=records, base=str(request.base_url))


def read_operations(document: Schema) -> Iterator[tuple[str, Operation]]:
    for path, methods in document["paths"].items():
        for method, found in methods.items():
            scopes = [scope for each in found.get("security", ()) for scope in each.get("key", ())]
            yield (
                found["tags"][0],
                Operation(
                    found["operationId"],
                    method.upper(),
                    path,
                    prose(found.get("description", "")),
                    scopes[0] if scopes else "",
                    [_parameter(each) for each in found.get("parameters", ())],
                    [
                        (media_type, type_of(content.get("schema", {})), read_fields(content.get("schema", {})))
                        for media_type, content in found.get("requestBody", {}).get("content", {}).items()
                    ],
                    list(_answers(found["responses"])),
                ),
            )


def _answers(responses: Schema) -> Iterator[tuple[str, str, Markup]]:
    for status, answer in responses.items():
        if not status.startswith("2"):  # all errors are alike
            continue
        contents = {
            kind: each for kind, each in answer.get("content", {}).items() if each.get("schema") or kind != JSON
        }
        if not contents:
            yield status, "", prose(answer["description"] if answer["description"] != "Successful Response" else "")
        for media_type, content in contents.items():
            yield status, media_type, type_of(content.get("schema", {}))


def _parameter(given: Schema) -> Field:
    schema = given["schema"]
    return Field(given["name"], type_of(schema), given["in"], given.get("required", False), _text(given, schema))


def read_fields(schema: Schema) -> list[Field]:
    """The fields of an object that is written out; one that has a name is in the list of types."""
    needed = schema.get("required", ())
    return [
        Field(name, type_of(each), "", name in needed, _text(each, each))
        for name, each in schema.get("properties", {}).items()
    ]


def _text(given: Schema, schema: Schema) -> Markup:
    default = schema.get("default")
    said = given.get("description", "")
    if default not in (None, "", [], False):
        said = f"{said} `{default}` if left out.".strip()
    return prose(said)


def type_of(schema: Schema) -> Markup:
    """A type in words, with links to those that have a name."""
    if "$ref" in schema:
        name = _short(schema["$ref"].rpartition("/")[2])
        return Markup('<a href="#type-{}">{}</a>').format(name, name)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return Markup(" or ").join(type_of(each) for each in options)
    if "enum" in schema:
        return Markup(" or ").join(Markup("<code>{}</code>").format(each) for each in schema["enum"])
    if "const" in schema:
        return Markup("<code>{}</code>").format(schema["const"])
    return _plain_type(schema)


def _plain_type(schema: Schema) -> Markup:
    kind = str(schema.get("type", "anything"))
    inner = schema.get("items") if kind == "array" else schema.get("additionalProperties")
    if kind in CONTAINERS and isinstance(inner, Mapping) and inner:
        return Markup("{} of {}").format(CONTAINERS[kind], type_of(inner))
    if kind == "string":
        return escape(FORMATS.get(schema.get("format", ""), "text"))
    return escape({"boolean": "true or false", "array": "list"}.get(kind, kind) + _bounds(schema))


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and high < LARGE:
        return f" from {low} to {high}"
    return ""


def _short(name: str) -> str:
    """`Page_Document_int_` as Page of Document, in one word."""
    return f"PageOf{name.split('_')[1]}" if name.startswith("Page_") else name
