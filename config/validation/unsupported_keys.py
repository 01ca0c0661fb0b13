"""The keys of the reference, and the messages for unsupported ones."""

from config import errors
from config.sections import Problem

KEYS = {
    "agents": "the agents clients can talk to",
    "auth": "authentication for the API and the studio",
    "default_user_id": "the user of requests that do not name one",
    "experiments": "A/B tests over agents",
    "judges": "models that score replies",
    "mcp": "tool servers agents can use",
    "memory": "what Coulisse remembers about each user",
    "providers": "the model providers and their API keys",
    "public_base_url": "the address clients reach the server at",
    "server": "the address, port and limits of the server",
    "sidecars": "programs that run beside the server",
    "skills": "instructions agents can look up",
    "smoke_tests": "conversations with synthetic users",
    "storage": "where uploaded files are stored",
    "tasks": "background tasks",
    "telemetry": "logs and traces",
    "triggers": "turns started by a schedule, a webhook or a server start",
    "users": "how requests are assigned to users",
    "vars": "reusable text, inserted with ${vars.name}",
}


def describe_unavailable(key: str) -> str:
    """Return the message for a key that no section reads."""
    unavailable = "is not available in this version of Coulisse; remove the key"
    return f"'{key}' ({KEYS[key]}) {unavailable}"


def build_problem(key: str) -> Problem:
    """Return the problem for a key that no section reads."""
    return Problem((key,), describe_unavailable(key), errors.PLANNED_KEY)
