"""`/schedules`: what runs by which rule, when it comes next, and how it went."""

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request, Response

from penstock.web import fleet
from penstock.web.caller import Admins, Reads
from penstock.web.pages.look import back, show
from penstock.web.parameters import Storable

routes = APIRouter(prefix="/schedules", include_in_schema=False)

Text = Annotated[Storable, Form(min_length=1, max_length=500)]


@routes.get("", response_class=Response)
async def list_schedules(caller: Reads, request: Request) -> Response:
    """All of them."""
    return show(request, caller, "schedules.html", schedules=await fleet.list_schedules(caller))


@routes.post("/{action}", response_class=Response)
async def change(
    caller: Admins, action: Literal["run", "pause", "resume", "remove"], name: Text, share: Text
) -> Response:
    """Run it now, pause, resume, remove."""
    if action == "run":
        await fleet.run_now(caller, name, share)
        return back("/schedules", "run")
    if action == "remove":
        await fleet.remove_one(caller, name, share)
        return back("/schedules", "removed")
    await (fleet.pause_one if action == "pause" else fleet.resume_one)(caller, name, share)
    return back("/schedules", f"{action}d")
