"""Clients with and without credentials."""

import httpx2
import openai

from tests.conftest import CONFIG

TOKENS = CONFIG + "auth: {proxy: {tokens: {}}}\n"


TWO = """
auth:
  proxy:
    basic:
      - {username: ada, password: 'pâss wörd'}
      - {username: bob, password: password-of-bob}
    identity: IDENTITY
"""


BOUND = CONFIG + TWO.replace("IDENTITY", "from_credential")


LOOSE = CONFIG + TWO.replace("IDENTITY", "from_request")


def ask(client: openai.OpenAI, **more):
    messages = [{"role": "user", "content": "hi"}]
    return client.chat.completions.create(
        model=more.pop("model", "assistant"), messages=messages, **more
    )


def refusal(answer: httpx2.Response) -> tuple[int, str | None]:
    return answer.status_code, answer.json()["error"]["code"]
