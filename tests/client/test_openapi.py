"""The classes of the client's results are those of the OpenAPI document, field by field: name, type, required.

Which class stands for which answer is read from the client's own source: `self._ask(Document, "GET", "/api/…")`.
"""

import ast
import dataclasses
import types
import typing
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from penstock.client import fleet_models, knowledge_models, models
from penstock.client.models import Result
from penstock.product import Product
from penstock.web import make_app
from tests.client.unasync import SOURCE

Schema = dict[str, Any]

NO_ANSWERS = {"Health", "Changed", "Fetched"}  # two without a schema, and what the client itself has done
KEYWORDS = {"class"}  # no field of a dataclass can have this name: it is in `extra`
TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", dict: "object", list: "array"}


def classes() -> dict[str, type[Result]]:
    """Every class of a result, by name."""
    found = {name: kind for module in (models, knowledge_models, fleet_models) for name, kind in vars(module).items()}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, Result) and kind is not Result
    }


def decoded() -> Iterator[tuple[str, str, str, str]]:
    """A class, the form in which it comes (one, list or page), and the method and path of the request."""
    for path in SOURCE.glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            routes, forms = [], []
            for node in ast.walk(function):
                match node:
                    case ast.Call(func=ast.Attribute(attr="ask"), args=[ast.Constant(method), ast.Constant(route)]):
                        routes.append((method, route))
                    case ast.Call(
                        func=ast.Attribute(attr="_ask"),
                        args=[ast.Name(kind), ast.Constant(method), ast.Constant(route)],
                    ):
                        yield str(kind), "one", str(method), str(route)
                    case ast.Call(func=ast.Attribute(attr="_ask_list"), args=[ast.Name(kind), ast.Constant(route)]):
                        yield str(kind), "list", "GET", str(route)
                    case ast.Call(func=ast.Attribute(attr="pages"), args=[ast.Name(kind), ast.Constant(route)]):
                        yield str(kind), "page", "GET", str(route)
                    case ast.Call(func=ast.Name("decode"), args=[ast.Name(kind), _]):
                        forms.append((kind, "one"))
                    case ast.Call(func=ast.Name("decode_list"), args=[ast.Name(kind), ast.Await() | ast.Name()]):
                        forms.append((kind, "list"))
                    case ast.Call(func=ast.Name("decode_list"), args=[ast.Name(kind), _]):  # of the items of a page
                        forms.append((kind, "page"))
            for method, route in routes:
                yield from ((kind, form, str(method), str(route)) for kind, form in forms)


class Comparison:
    """Of all classes with one OpenAPI document."""

    def __init__(self, document: Schema) -> None:
        self._document = document
        self._schemas: dict[type[Result], list[Schema]] = defaultdict(list)
        self.differences: list[str] = []

    def add(self, kind: type[Result], form: str, method: str, path: str) -> None:
        """The answers of a route are of this class."""
        responses = self._document["paths"][path][method.lower()]["responses"]
        answers = [
            self._resolve(each["content"]["application/json"]["schema"])
            for status, each in responses.items()
            if status.startswith("2") and each.get("content", {}).get("application/json", {}).get("schema")
        ]
        found = [inner for answer in answers if (inner := self._unwrap(answer, form)) is not None]
        if not found:
            self.differences.append(f"{method} {path} does not answer with {form} {kind.__name__}")
        for schema in found:
            self._add(kind, schema)

    def compare(self) -> set[str]:
        """The names of all classes that were compared."""
        for kind, schemas in self._schemas.items():
            self._compare(kind, schemas)
        return {kind.__name__ for kind in self._schemas}

    def _add(self, kind: type[Result], schema: Schema) -> None:
        if schema in self._schemas[kind]:
            return
        self._schemas[kind].append(schema)
        for name, hint in _hints(kind).items():
            inner = _result_in(hint)
            part = schema["properties"].get(name)
            if inner is not None and part is not None:
                self._add(inner, self._innermost(part))

    def _compare(self, kind: type[Result], schemas: Sequence[Schema]) -> None:
        hints = _hints(kind)
        served = {name for schema in schemas for name in schema["properties"]} - KEYWORDS
        for name in sorted(served ^ hints.keys()):
            where = "the client does not have" if name in served else "the server does not send"
            self.differences.append(f"{kind.__name__}.{name}: {where} it")
        needed = {each.name for each in dataclasses.fields(kind) if models._is_needed(each)}
        for schema in schemas:
            for name in sorted(needed - set(schema.get("required", ()))):
                self.differences.append(f"{kind.__name__}.{name}: needed, and {schema['title']} does not require it")
            for name in sorted(hints.keys() & schema["properties"]):
                if not self._fits(hints[name], schema["properties"][name]):
                    part = schema["properties"][name]
                    self.differences.append(f"{kind.__name__}.{name}: {hints[name]}, and {schema['title']} has {part}")

    def _fits(self, hint: Any, part: Schema) -> bool:
        """Whether all that the schema allows is of this type. A null that the server never sends does no harm."""
        part = self._resolve(part)
        options = set(typing.get_args(hint)) if isinstance(hint, types.UnionType) else {hint}
        if Any in options:
            return True
        if "anyOf" in part:
            return all(self._fits(hint, each) for each in part["anyOf"])
        if part.get("type") == "null":
            return type(None) in options
        return any(self._is(option, part) for option in options)

    def _is(self, option: Any, part: Schema) -> bool:
        if option is datetime or part.get("format") == "date-time":
            return option is datetime and part.get("format") == "date-time"
        if isinstance(option, type) and issubclass(option, Result):
            return part.get("type") == "object" and "properties" in part
        origin = typing.get_origin(option) or option
        if origin in {list, Sequence}:
            [inner] = typing.get_args(option)
            parts = part.get("prefixItems") or [part.get("items", {})]
            return part.get("type") == "array" and all(self._fits(inner, each) for each in parts)
        return part.get("type") == TYPES.get(origin)

    def _unwrap(self, schema: Schema, form: str) -> Schema | None:
        if form == "list":
            return self._resolve(schema["items"]) if schema.get("type") == "array" else None
        if form == "page":
            page = schema.get("properties", {}).keys() == {"items", "next"}
            return self._resolve(schema["properties"]["items"]["items"]) if page else None
        return schema if schema.get("type") == "object" else None

    def _innermost(self, part: Schema) -> Schema:
        """The object in a list, or in a choice with null."""
        part = self._resolve(part)
        if "anyOf" in part:
            [part] = [self._resolve(each) for each in part["anyOf"] if each.get("type") != "null"]
        return self._resolve(part["items"]) if part.get("type") == "array" else part

    def _resolve(self, part: Schema) -> Schema:
        if "$ref" not in part:
            return part
        found: Schema = self._document["components"]["schemas"][part["$ref"].rpartition("/")[2]]
        return found


def _hints(kind: type[Result]) -> dict[str, Any]:
    return {name: hint for name, hint in typing.get_type_hints(kind).items() if name != "extra"}


def _result_in(hint: Any) -> type[Result] | None:
    """The class of results in a type, also in a list."""
    if isinstance(hint, type) and issubclass(hint, Result):
        return hint
    return next((found for each in typing.get_args(hint) if (found := _result_in(each))), None)


async def test_the_classes_are_those_of_the_document(product: Product) -> None:
    known = classes()
    comparison = Comparison(make_app(product).openapi())
    for name, form, method, path in decoded():
        if name not in NO_ANSWERS:
            comparison.add(known[name], form, method, path)
    compared = comparison.compare()
    assert not comparison.differences, "\n".join(comparison.differences)
    assert compared == known.keys() - NO_ANSWERS
