"""The configurations that a run attacks: three ways of authentication."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

PASSWORD = "fuzzing-4f1c9b72d86e03a5"
CONFIG = """\
server: {{bind: 127.0.0.1, port: {port}}}
{auth}
providers:
  openai:
    api_key: sk-fuzz-0123456789abcdef0123456789
    base_url: "{provider}/v1"
    retries: 0
  anthropic:
    api_key: sk-fuzz-fedcba9876543210fedcba987654
    base_url: "{provider}"
    retries: 0
agents:
  - name: assistant
    provider: openai
    model: gpt-test
    preamble: You are a test assistant.
    memory_tools: true
    task_tools: true
    state: {{notes: {{reducer: union}}, progress: {{reducer: merge}}, any: {{}}}}
    subagents: [claude]
    judges: [quality]
  - {{name: claude, provider: anthropic, model: claude-test, purpose: Helps.}}
judges:
  - name: quality
    provider: openai
    model: gpt-test
    sampling_rate: 0.1
    rubrics: {{helpful: Whether it helps.}}
experiments:
  - name: comparison
    strategy: split
    variants: [{{agent: assistant, weight: 1}}, {{agent: claude, weight: 1}}]
smoke_tests:
  - name: first-words
    target: assistant
    persona: {{provider: openai, model: gpt-test, preamble: You are new here.}}
    max_turns: 2
triggers:
  - name: noon
    type: cron
    schedule: "0 12 * * *"
    agent: assistant
    prompt: Sum up.
    user: team
    enabled: false
  - name: posted
    type: webhook
    path: /hooks/posted
    agent: assistant
    prompt: "RawResponse {{{{text}}}}."
    user: team
  - name: signed
    type: webhook
    path: /hooks/signed
    agent: assistant
    prompt: RawResponse.
    user: team
    secret: 3d1f0a5c7b9e2468ace013579bdf8642
    signature: github
mcp:
  notes: {{url: "http://127.0.0.1:9/notes"}}
memory:
  user_state: {{embed_with: {{provider: hash}}}}
prices:
  openai: {{gpt-test: {{input: 0.15, output: 0.60}}}}
limits:
  - {{per: agent, requests_per_minute: 100000, tokens_per_day: 1000000000}}
"""
ADMIN = f"admin: {{basic: [{{username: olga, password: {PASSWORD}}}]}}"


@dataclass(frozen=True)
class Mode:
    """One way of authentication."""

    name: str
    share: float
    """Share of the time of a run."""
    auth: str = ""
    studio: Mapping[str, str] = field(default_factory=dict)
    """Credentials for the studio."""
    api: Mapping[str, str] = field(default_factory=dict)
    """Credentials for `/v1` and `/mcp`; empty until a token exists."""
    names_users: bool = True
    """Whether requests name their user."""

    def headers(self, target: str | bytes) -> Mapping[str, str]:
        """Return the credentials for an address."""
        path = target.encode() if isinstance(target, str) else target
        return self.studio if path.startswith(b"/admin") else self.api


def _basic(username: str) -> dict[str, str]:
    encoded = base64.b64encode(f"{username}:{PASSWORD}".encode()).decode()
    return {"Authorization": f"Basic {encoded}"}


OPEN = Mode("open", share=0.5)
BASIC = Mode(
    "basic",
    share=0.25,
    auth=f"""auth:
  {ADMIN}
  proxy:
    identity: from_credential
    basic: [{{username: ana, password: {PASSWORD}}}]""",
    studio=_basic("olga"),
    api=_basic("ana"),
    names_users=False,
)
TOKENS = Mode(
    "tokens",
    share=0.25,
    auth=f"auth:\n  {ADMIN}\n  proxy: {{tokens: {{}}}}",
    studio=_basic("olga"),
    names_users=False,
)
MODES = (OPEN, BASIC, TOKENS)
