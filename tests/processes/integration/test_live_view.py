"""The live view of a web process shows tasks of a worker, through the broker."""

import json

from websockets.sync.client import connect

from testing.scripted_provider import FakeProvider
from tests.processes.conftest import Project
from tests.processes.integration.test_killed_task import create, served, until

__all__ = ["served"]


def test_live_view_follows_a_running_task(served: Project, fake: FakeProvider) -> None:
    fake.hang()
    messages = []

    def read() -> dict:
        messages.append(json.loads(ws.recv(timeout=60)))
        return messages[-1]

    address = f"ws://127.0.0.1:{served.port}/admin/live/events"
    with connect(address, open_timeout=30) as ws:
        assert read()["type"] == "snapshot"
        task = create(served, "Write it all down.")
        until(lambda: "user_message" in json.dumps(read()["turns"]))
        (turn,) = messages[-1]["turns"].values()
        assert (turn["origin"], turn["user_message"]) == ("task", "Write it all down.")
        until(lambda: task in json.dumps(messages) or read() is None)
        fake.release()
        until(lambda: read()["turns"].get(turn["id"], 0) is None)

        def states():
            tasks = [m["tasks"] for m in messages if "tasks" in m]
            return [each["state"] for each in tasks[-1]["ended"] if each["id"] == task]

        until(lambda: states() == ["done"] or read() is None)
        assert max(message["processes"] for message in messages) == 2
