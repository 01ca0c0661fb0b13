"""The HTTP interfaces: `/v1` for clients, `/health` for operators."""
