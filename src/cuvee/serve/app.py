"""The routes of the service, and nothing else; docs/serve.md has a line of curl for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.routing import APIRoute
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

import cuvee
from cuvee.serve import adding, bodies, pages, problems, schema, views
from cuvee.serve.arrow import ARROW, to_arrow
from cuvee.serve.auth import Role, Tokens
from cuvee.serve.guard import Guard, allow, needs
from cuvee.serve.limits import Limits
from cuvee.serve.metrics import TYPE, Metrics
from cuvee.serve.predicting import Asked
from cuvee.serve.problems import Problem, answer
from cuvee.serve.state import TRUSTS, Question, State
from cuvee.serve.wanted import Wanted


def create_app(state: State, tokens: Tokens, limits: Limits, metrics: Metrics) -> FastAPI:
    """Return the service of a run."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        state.close()

    app = FastAPI(
        title="cuvee",
        version=cuvee.__version__,
        description="A run of cuvee behind HTTP: targets, predictions, mixtures, new targets.",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
        redirect_slashes=False,
        responses=schema.RESPONSES,
    )
    app.state.cuvee, app.state.limits, app.state.metrics = state, limits, metrics
    problems.install(app)
    app.router.routes.extend(_predictions.routes)  # first, because routes are tried in turn
    app.include_router(_targets)
    app.include_router(adding.router)
    app.include_router(_about)
    app.include_router(pages.router)
    app.add_middleware(Guard, tokens=tokens, limits=limits, metrics=metrics)
    return app


class Direct(APIRoute):
    """Give an endpoint its request and what stands in the address, and nothing else.

    What FastAPI does for dependencies takes longer than to predict a row.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **how: Any) -> None:
        super().__init__(path, endpoint, **how)

        async def answered(scope: Scope, receive: Receive, send: Send) -> None:
            response = await endpoint(Request(scope, receive), **scope["path_params"])
            await response(scope, receive, send)

        self.app = answered


_about = APIRouter()
_predictions = APIRouter(prefix="/v1", route_class=Direct, responses=schema.RESPONSES)
_targets = APIRouter(prefix="/v1")


@_about.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process is alive."""
    return {"status": "alive"}


@_about.get("/readyz")
async def readyz(request: Request) -> Response:
    """Say that models are in memory, and whether new mixtures and targets can be made."""
    state: State = request.app.state.cuvee
    return answer(
        {
            "status": "ready",
            "sources": state.base is not None,
            "map": "learnt" if state.atlas is not None else "not learnt",
        }
    )


@_about.get("/metrics", dependencies=[needs(Role.read)], response_class=PlainTextResponse)
async def metrics_text(request: Request) -> Response:
    """Return counts and times of this process, for Prometheus."""
    state: State = request.app.state.cuvee
    gauges = {"cuvee_targets": {"": float(len(state.run.targets))}}
    if state.jobs is not None:
        gauges["cuvee_jobs"] = state.jobs.counts()
    return Response(request.app.state.metrics.text(gauges), media_type=TYPE)


@_predictions.post(
    "/targets/{name:path}/predict",
    responses={200: {"content": {ARROW: {"schema": {"type": "string", "format": "binary"}}}}},
    openapi_extra={
        **schema.body({"rows": schema.ROWS, "strict": {"type": "boolean"}}, ["rows"], tables=True),
        "parameters": [schema.STRICT],
        "security": [{"HTTPBearer": []}],
    },
)
async def predict(request: Request, name: str) -> Response:
    """Predict rows by the model of a target; answer in Arrow where that is accepted."""
    allow(request, Role.predict)
    state: State = request.app.state.cuvee
    run = state.run
    state.place(run, name)
    wanted = Wanted(run.features, run.categories, run.options.missing)
    limits = request.app.state.limits
    encoded = partial(run.encoded, target=name)
    rows, strict = await bodies.read_rows(request, limits, wanted, encoded)
    predicted = await state.predictions.ask(Asked(run, rows, name, strict))
    request.app.state.metrics.add("cuvee_predicted_rows_total", len(rows))
    if ARROW in bodies.header(request, b"accept"):
        return Response(to_arrow(predicted.frame(), predicted.notes), media_type=ARROW)
    return answer(predicted.as_dict())


@_targets.get("/targets", dependencies=[needs(Role.read)])
async def list_targets(
    request: Request,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the targets with their weights and scores, in the order of the run."""
    run = request.app.state.cuvee.run
    chosen = range(len(run.targets))[offset : offset + limit]
    return answer({"total": len(run.targets), "targets": [views.summary(run, i) for i in chosen]})


@_targets.get("/sources", dependencies=[needs(Role.read)])
async def list_sources(request: Request) -> Response:
    """List the sources that mixtures may weigh, with their rows, in the order of α."""
    base = request.app.state.cuvee.sources()
    rows = [{"name": name, "rows": len(base.rows[name][1])} for name in base.sources]
    return answer({"sources": rows})


@_targets.get("/targets/{name:path}", dependencies=[needs(Role.read)])
async def show_target(request: Request, name: str) -> Response:
    """Return a target with its weights, certificate, scores and model."""
    state: State = request.app.state.cuvee
    run = state.run
    return answer(views.detail(run, state.place(run, name), state.base))


@_targets.post(
    "/mixtures",
    dependencies=[needs(Role.predict)],
    openapi_extra=schema.body(
        {
            "alpha": schema.WEIGHTS,
            "target": {"type": ["string", "null"]},
            "trust": schema.TRUST,
            "sensitivity": {"type": "boolean"},
        },
        ["alpha"],
    ),
)
async def mix(request: Request) -> Response:
    """Return the model of any mixture of the sources, how far it can be trusted, and dw*/dα.

    Without `trust` a model is predicted by the learnt map and proven on the data; where that fails
    it is corrected or solved. With `target` the model is scored on the rows of
    that target which are kept for it, and its own sample may be weighed.
    """
    state, limits = request.app.state.cuvee, request.app.state.limits
    content = await bodies.read_json(
        request, limits, required=("alpha",), optional=("target", "trust", "sensitivity")
    )
    trust, moves = content.get("trust"), content.get("sensitivity", True)
    if trust not in (None, *TRUSTS):
        raise Problem(422, f"trust must be one of {', '.join(TRUSTS)}, or left out")
    if not isinstance(moves, bool):
        raise Problem(422, "sensitivity must be true or false")
    target = content.get("target")
    if not isinstance(target, str | None):
        raise Problem(422, "target must be the name of a target, or left out")
    if target is not None:
        state.place(state.run, target)
    base = state.sources()
    alpha = base.alpha(bodies.check_weights(content["alpha"], limits), target)
    mixed = await state.mix(Question(alpha, trust, target, moves))
    return answer(views.mixture(base, mixed, moves, target))
