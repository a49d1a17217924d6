"""What many routes take: the open product, a document's number, a collection's name, JSON inside of a parameter."""

import json
from typing import Annotated, Any

from fastapi import Depends, Path, Request

from penstock.documents.metadata import encode_metadata
from penstock.errors import BadValue
from penstock.pipelines import Product


def _product(request: Request) -> Product:
    product: Product = request.app.state.product
    return product


Open = Annotated[Product, Depends(_product)]
DocumentId = Annotated[int, Path(ge=1, lt=2**63, description="The document's number.")]
CollectionName = Annotated[str, Path(description="The collection's name.")]


def decode_metadata(text: str | None, where: str) -> dict[str, Any]:
    """A JSON object that came as text; none is an empty one."""
    if text is None:
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadValue(f'{where} is not JSON ({error}): send an object such as {{"project": "mill"}}.') from None
    if not isinstance(value, dict):
        raise BadValue(f'{where} is no JSON object: send one such as {{"project": "mill"}}.')
    encode_metadata(value)  # what cannot be kept cannot be looked for either
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
