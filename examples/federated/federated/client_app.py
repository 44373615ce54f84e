"""The ClientApp of a hospital."""

from cuvee_site import client_app

app = client_app()
