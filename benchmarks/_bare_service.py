"""The service to compare with: one endpoint of FastAPI that multiplies one matrix by NumPy."""

from __future__ import annotations

import socket
import sys

import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Body(BaseModel):
    """Rows as the service of cuvee takes them."""

    rows: list[dict[str, float]]


def app_of(columns: list[str]) -> FastAPI:
    """Return the service: no token, no limits, no checks beside those of the model above."""
    app, w = FastAPI(), np.random.default_rng(0).normal(size=len(columns))

    @app.post("/predict")
    async def predict(body: Body) -> dict[str, list[float]]:
        X = np.array([[row[name] for name in columns] for row in body.rows])
        return {"predictions": (X @ w).tolist()}

    return app


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as cuvee serve does
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    names = [f"x{j}" for j in range(int(sys.argv[1]))]
    config = uvicorn.Config(app_of(names), access_log=False, log_config=None)
    uvicorn.Server(config).run(sockets=[listening])
