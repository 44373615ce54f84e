"""The public benchmark of few labelled rows in many groups."""
