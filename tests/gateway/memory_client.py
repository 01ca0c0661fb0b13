"""A client of the memory API, for one user."""

from typing import Any

import httpx2

from access.users import identity
from core.ids import new_turn_id
from core.messages import Message
from memory.models import Passage
from memory.models import StoredMessage as Row
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage
from tests.gateway.calls import error

CONFIG_WITH_MEMORY = """
providers:
  openai: {base_url: "{fake}/v1", api_key: sk-secret, retries: 0}
agents:
  - {name: assistant, provider: openai, model: gpt-test}
memory:
  user_state: {embed_with: {provider: hash}}
"""


class MemoryClient:
    """Calls the API for one user, named in the query."""

    def __init__(self, client: httpx2.Client, user: str | None) -> None:
        self.client = client
        self.user = user

    def send(
        self, method: str, path: str, /, body: Any = None, **query: Any
    ) -> httpx2.Response:
        """Send a request; parameters with the value None are omitted."""
        params = {"safety_identifier": self.user, **query}
        params = {name: value for name, value in params.items() if value is not None}
        content = {} if body is None else {"json": body}
        return self.client.request(method, path, params=params, **content)

    def get(self, path: str = "/v1/memories", **query: Any) -> Any:
        return ok(self.send("GET", path, **query))

    def refused(self, method: str, path: str, status: int = 400, /, **more: Any) -> Any:
        """Return the error of a refused request."""
        return error(self.send(method, path, **more), status)

    def save(self, content: str, **fields: Any) -> Any:
        body = {"content": content, **fields}
        return ok(self.send("POST", "/v1/memories", body), 201)

    def change(self, memory: Any, **changes: Any) -> Any:
        return ok(self.send("PATCH", address(memory), changes))

    def forget(self, memory: Any) -> Any:
        return ok(self.send("DELETE", address(memory)))

    def contents(self, **query: Any) -> list[str]:
        return [memory["content"] for memory in self.get(**query)["data"]]

    def search(self, query: str, **fields: Any) -> Any:
        body = {"query": query, **fields}
        return ok(self.send("POST", "/v1/memories/search", body))

    def finds(self, query: str, **fields: Any) -> list[str]:
        return [each["content"] for each in self.search(query, **fields)["data"]]


def ok(response: httpx2.Response, status: int = 200) -> Any:
    """Return the JSON of a successful response."""
    assert response.status_code == status, (response.status_code, response.text)
    return response.json()


def address(memory: Any) -> str:
    return f"/v1/memories/{memory['id']}"


def save_memories(memory_client: MemoryClient) -> list[str]:
    """Save five memories that have little in common; return them newest first."""
    contents = [
        "Has a cat called Minka",
        "Plays the cello",
        "Works as a baker",
        "Was born in Quito",
        "Fears heights",
    ]
    for content in contents:
        memory_client.save(content)
    return contents[::-1]


def store_message(memory_client: MemoryClient, text: str, thread: str = "") -> None:
    """Store a message and index it for searches."""
    owner = identity.derive_user_id(memory_client.user)
    message_store.append_turn(
        owner, thread, new_turn_id(), [NewMessage(Message("user", text), 5)]
    )
    row = Row.objects.filter(thread__user_id=owner).latest("id")
    Passage.objects.index_messages(
        owner, row.thread_id, [(row.pk, row.position, row.text, None, "")]
    )
