"""Limits on HTTP requests and connections in uvicorn's protocols."""
