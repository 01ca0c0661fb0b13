"""Keys of the scripted provider for conversations by voice."""

import time
from typing import Any

import orjson

from testing.wires import ScriptedAnswer

KEY = "ek_fake"


def answer(body: Any) -> ScriptedAnswer:
    """Return a key for a session, with what the provider adds to the session."""
    seconds = body["expires_after"]["seconds"]
    secret = {
        "value": KEY,
        "expires_at": int(time.time()) + seconds,
        "session": {**body["session"], "id": "sess_fake", "object": "realtime.session"},
    }
    return ScriptedAnswer(raw=orjson.dumps(secret), content_type="application/json")
