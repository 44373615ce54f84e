"""The routes of new targets and of the jobs that make them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import StreamingResponse

from cuvee.run.new_targets import encode, notes_on
from cuvee.serve import bodies, schema, views
from cuvee.serve.arrow import ARROW
from cuvee.serve.auth import Role
from cuvee.serve.csv_rows import CSV
from cuvee.serve.guard import needs
from cuvee.serve.jobs import DONE, FAILED, QUEUED, RUNNING, Job, Jobs
from cuvee.serve.limits import Limits
from cuvee.serve.problems import Problem, answer, to_json
from cuvee.serve.state import State
from cuvee.serve.wanted import Wanted

router = APIRouter(prefix="/v1")
OFTEN, SELDOM = 0.02, 0.2  # seconds between two looks at a job
EVENTS = "text/event-stream"
LONGEST = 600.0  # seconds of a stream of events; the client may ask for another


@router.post(
    "/targets",
    status_code=201,
    responses={202: {"description": "Accepted: the job is on the disk, and its address is given."}},
    dependencies=[needs(Role.adapt)],
    openapi_extra=schema.body(
        {"name": {"type": "string", "minLength": 1, "maxLength": 200}, "rows": schema.ROWS},
        ["name", "rows"],
        tables=True,
    ),
)
async def add_target(request: Request, name: Annotated[str | None, Query()] = None) -> Response:
    """Make a new target of its labelled rows: α, a model, a certificate and scores.

    A small one is answered at once; else the answer is 202 with the address of a job. With rows as
    Arrow or CSV the name is a parameter of the address.
    """
    state: State = request.app.state.cuvee
    limits: Limits = request.app.state.limits
    jobs, base = state.writable(), state.sources()
    encoder = base.members.encoder
    options = base.prepared.options
    wanted = Wanted((*encoder.raw_features, options.label), encoder.raw_text, options.missing)
    name, frame = await _named_rows(request, name, limits, wanted)
    state.check_free(name)
    if len(state.run.added) >= limits.targets:
        raise Problem(409, f"this run has {limits.targets:,} new targets; delete some first")
    counts = jobs.counts()
    if counts[QUEUED] + counts[RUNNING] >= limits.jobs:
        busy = "too many new targets wait already; ask again in a minute"
        raise Problem(503, busy, {"Retry-After": "60"})
    rows = await asyncio.to_thread(encode, base, name, frame)
    notes = await asyncio.to_thread(notes_on, base, name, frame)
    job = await asyncio.to_thread(jobs.add, name, rows)
    if job is None:
        raise Problem(409, f"a target {name!r} is being made already; choose another name")
    if state.worker is not None:
        state.worker.wake()
    if len(frame) <= limits.small:
        job = await _waited(jobs, job, limits.at_once_seconds)
    return _outcome(state, job, {"notes": notes} if notes else {})


@router.get("/jobs/{key}", dependencies=[needs(Role.read)])
async def show_job(request: Request, key: str) -> Response:
    """Say what has become of a job."""
    return answer(_described(_job(request, key)))


@router.get(
    "/jobs/{key}/events",
    dependencies=[needs(Role.read)],
    responses={200: {"content": {EVENTS: {"schema": {"type": "string"}}}}},
)
async def job_events(request: Request, key: str) -> Response:
    """Send the progress of a job as server-sent events, until it has ended."""
    _job(request, key)
    jobs = request.app.state.cuvee.writable()
    return StreamingResponse(_events(jobs, key), media_type=EVENTS)


@router.delete("/targets/{name:path}", status_code=204, dependencies=[needs(Role.adapt)])
async def delete_target(request: Request, name: str) -> Response:
    """Delete a target that was added; those that the run was made with stay."""
    await asyncio.to_thread(request.app.state.cuvee.remove, name)
    return Response(status_code=204)


async def _named_rows(
    request: Request, name: str | None, limits: Limits, wanted: Wanted
) -> tuple[str, Any]:
    """Return the name and the rows of a new target."""
    if bodies.type_of(request) in (ARROW, CSV):
        if name is None:
            raise Problem(422, "say in the address who it is: /v1/targets?name=NAME")
        rows, _ = await bodies.read_rows(request, limits, wanted)
        return bodies.check_name(name, limits), rows
    content = await bodies.read_json(request, limits, required=("name", "rows"))
    if name is not None and name != content["name"]:
        raise Problem(422, "the address and the body give different names; give one name")
    name = bodies.check_name(content["name"], limits)
    return name, await bodies.framed(content["rows"], wanted, limits)


async def _waited(jobs: Jobs, job: Job, seconds: float) -> Job:
    """Return the job when it has ended, or as it is after so many seconds."""
    until = time.monotonic() + seconds
    while not job.ended and time.monotonic() < until:
        await asyncio.sleep(OFTEN)
        job = jobs.find(job.id) or job
    return job


def _outcome(state: State, job: Job, notes: dict[str, Any]) -> Response:
    if job.state == FAILED:
        raise Problem(422, job.detail or "the target could not be made")
    if job.state == DONE:
        run = state.run
        if job.name in run.targets:  # unless somebody has deleted it meanwhile
            headers = {"Location": f"/v1/targets/{quote(job.name, safe='')}"}
            about = views.detail(run, run.targets.index(job.name), state.base)
            return answer(about | notes, 201, headers)
    return answer(_described(job) | notes, 202, {"Location": f"/v1/jobs/{job.id}"})


def _described(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state,
        "detail": job.detail,
        "progress": {"what": job.what, "done": job.done, "total": job.total},
        "events": f"/v1/jobs/{job.id}/events",
        "target": f"/v1/targets/{quote(job.name, safe='')}" if job.state == DONE else None,
    }


def _job(request: Request, key: str) -> Job:
    jobs: Jobs | None = request.app.state.cuvee.jobs
    job = jobs.find(key) if jobs is not None and key.isalnum() else None
    if job is None:
        raise Problem(404, "there is no such job; jobs that ended are forgotten after a week")
    return job


async def _events(jobs: Jobs, key: str) -> AsyncIterator[bytes]:
    until, last = time.monotonic() + LONGEST, None
    while time.monotonic() < until:
        job = jobs.find(key)
        if job is None:
            return
        if job != last:
            kind = job.state if job.ended else "progress"
            yield f"event: {kind}\ndata: ".encode() + to_json(_described(job)) + b"\n\n"
            last = job
        if job.ended:
            return
        await asyncio.sleep(SELDOM)
