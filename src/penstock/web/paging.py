"""Lists in pages, by keyset: a page begins after the last key of the one before, however many rows there are or come."""

from collections.abc import Callable
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, Field

T = TypeVar("T")
K = TypeVar("K")

Limit = Annotated[int, Query(ge=1, le=1000, description="Items of the page, at most.")]
AfterNumber = Annotated[int, Query(ge=-1, lt=2**63, description="The `next` of the page before.")]


class Page(BaseModel, Generic[T, K]):
    """A part of a list."""

    items: list[T]
    next: K | None = Field(description="Give it as `after` for the next page; null at the end.")


def cut(found: list[T], limit: int, key: Callable[[T], K]) -> Page[T, K]:
    """A page of up to `limit` out of one row more than that, by which it is known whether there is a next one."""
    items = found[:limit]
    return Page(items=items, next=key(items[-1]) if len(found) > limit else None)
