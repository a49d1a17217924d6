"""`/api/keys`: make, list and revoke the keys of one's own tenant. A key is shown once, in the answer that makes it."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from penstock import access
from penstock.web.caller import Admins
from penstock.web.paging import AfterNumber, Limit, Page, cut
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api/keys", tags=["keys"], responses=RESPONSES)


class NewKey(BaseModel):
    """A key to make."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="Who has it; documents that come with it say so.")
    scopes: list[Literal["read", "write", "admin"]] = Field(["read"], max_length=3)
    collections: list[str] | None = Field(None, max_length=1000, description="Only these; null for all.")
    expires_in: float | None = Field(None, gt=0, le=315_360_000, description="Seconds; null for never.")


class KeyShown(BaseModel):
    """A key, without itself."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    name: str
    prefix: str = Field(description="How it begins, after pk_.")
    scopes: list[str]
    collections: list[str] | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None = Field(description="The last time, to a few minutes.")
    usable: bool


class KeyMade(KeyShown):
    """A new key."""

    key: str = Field(description="The key itself; it cannot be shown again.")


@routes.post("", status_code=201)
async def create_key(caller: Admins, wish: NewKey) -> KeyMade:
    """Make a key of this tenant."""
    made = await access.create_key(
        caller.app.database,
        wish.name,
        tenant=caller.tenant,
        scopes=wish.scopes,
        collections=wish.collections,
        expires_in=None if wish.expires_in is None else timedelta(seconds=wish.expires_in),
        created_by=caller.principal.name,
    )
    shown = KeyShown.model_validate(made)
    return KeyMade(**shown.model_dump(), key=made.key.text if made.key else "")


@routes.get("")
async def list_keys(caller: Admins, after: AfterNumber = 0, limit: Limit = 100) -> Page[KeyShown, int]:
    """The keys of this tenant, those that are over among them."""
    last = min(after, 2**31 - 1)  # a key's number is an int
    found = await access.list_keys(caller.app.database, tenant=caller.tenant, after=last, most=limit + 1)
    return cut([KeyShown.model_validate(each) for each in found], limit, lambda each: each.id)


@routes.delete("/{key}")
async def revoke_key(caller: Admins, key: Annotated[int, Path(ge=1, lt=2**31)]) -> KeyShown:
    """End a key: within a second, nobody can use it any more."""
    return KeyShown.model_validate(await access.revoke_key(caller.app.database, str(key), tenant=caller.tenant))
