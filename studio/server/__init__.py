"""How the studio is served: the ASGI handler and its threads, middleware, and the
bridge to the event loop.
"""
