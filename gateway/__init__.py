"""The ways in over HTTP: `/v1` for clients, `/health` for operators."""
