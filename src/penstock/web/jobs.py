"""`/api/jobs`: why a job is where it is. Jobs are everybody's, so that it is told to who runs the fleet."""

from typing import Annotated

from fastapi import APIRouter, Path

from penstock.errors import NotAllowed, NotFound
from penstock.web.caller import Reads
from penstock.web.documents import Why
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api/jobs", tags=["jobs"], responses=RESPONSES)

JobNumber = Annotated[int, Path(ge=1, lt=2**63, description="The job's number.")]


@routes.get("/{job}/why")
async def explain_job(caller: Reads, job: JobNumber) -> Why:
    """Why a job is where it is. For keys of the tenant `default` that are for all collections."""
    if not caller.runs_fleet:
        raise NotAllowed("Jobs are about everybody: use a key of the tenant `default` for all collections.")
    found = await caller.app.why(job)
    if found.state == "not found":
        raise NotFound(found.sentence)
    return Why.model_validate(found)
