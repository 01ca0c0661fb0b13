"""The keys of the reference, and the messages for unsupported ones."""

from config import errors
from config.sections import Problem

KEYS = {
    "agents": "the agents clients can talk to",
    "auth": "who may call the API and the studio",
    "default_user_id": "the user of requests that name none",
    "experiments": "A/B tests over agents",
    "judges": "models that score replies",
    "mcp": "tool servers agents can use",
    "memory": "what is kept of a user's conversations",
    "providers": "where models run",
    "public_base_url": "the address clients reach the server at",
    "server": "how the server listens",
    "sidecars": "processes that run beside the server",
    "skills": "instructions agents can look up",
    "smoke_tests": "conversations with synthetic users",
    "storage": "where uploaded files are kept",
    "tasks": "work in the background",
    "telemetry": "logs and traces",
    "triggers": "turns started by a clock, a webhook or the start of the server",
    "users": "how users are told apart",
    "vars": "snippets of text, used as ${vars.name}",
}


def describe_unavailable(key: str) -> str:
    """Return the message for a key that no section reads."""
    return (
        f"'{key}' ({KEYS[key]}) is not available in this version of Coulisse; "
        f"remove the key"
    )


def build_problem(key: str) -> Problem:
    """Return the problem for a key that no section reads."""
    return Problem((key,), describe_unavailable(key), errors.PLANNED_KEY)
