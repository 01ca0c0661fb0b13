"""The ASGI handler of the studio, its middleware, and the bridge to the event loop."""
