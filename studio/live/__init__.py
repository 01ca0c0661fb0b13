"""The live page: running turns and the queue, as HTML, as JSON and by websocket."""
