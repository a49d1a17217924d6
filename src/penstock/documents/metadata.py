"""What people say about a document: a JSON object of bounded size."""

import json
from collections.abc import Mapping
from typing import Any

from penstock.engine.kinds import NUL
from penstock.errors import BadValue

METADATA_MAX = 64 * 1024


def encode_metadata(metadata: Mapping[str, Any]) -> str:
    """As JSON that PostgreSQL can keep; BadValue says why not."""
    if not isinstance(metadata, Mapping):
        raise BadValue('The metadata must be a JSON object, such as {"client": "Acme"}.')
    try:
        text = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise BadValue(
            f"The metadata cannot be kept as JSON ({error}): use text, numbers, lists and objects."
        ) from None
    if "\\u0000" in text and NUL.search(text):
        raise BadValue("The metadata holds a NUL character, which PostgreSQL cannot keep: remove it.")
    if size > METADATA_MAX:
        raise BadValue(f"The metadata takes {size:,} bytes, more than {METADATA_MAX:,}: shorten it.")
    return text
