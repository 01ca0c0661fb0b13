"""The live page: running turns and the queue, as HTML, JSON and over a websocket."""
