"""The ServerApp of the coordinator."""

from cuvee.scale.flower import server_app

app = server_app()
