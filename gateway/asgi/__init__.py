"""The ASGI handler of clients' requests: body limits, slow clients, access log."""
