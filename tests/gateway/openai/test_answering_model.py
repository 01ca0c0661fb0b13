"""Who has answered: in headers, in `coulisse`, and as `model` if so configured."""

import httpx2
import pytest

from testing.wires import ScriptedAnswer
from tests.gateway.calls import body, frames, post, text_of

pytestmark = pytest.mark.database

YAML = """
providers:
  openai: {{api_key: key, base_url: "{{fake}}/v1", retries: 1}}
agents:
  - {{name: assistant, provider: openai, model: org/gpt-test}}
users: shared
server: {{response_model: {shown}}}
"""
PATHS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/completions": {"prompt": "Hi"},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Hi"}],
    },
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True], ids=["complete", "streamed"])
@pytest.mark.parametrize(
    ("shown", "model"), [("agent", "assistant"), ("model", "org/gpt-test")]
)
def test_answering_model_is_told(server, configure, fake, path, stream, shown, model):
    configure(YAML.format(shown=shown))
    request = {"model": "assistant", "stream": stream, **PATHS[path]}
    response = httpx2.post(server + path, json=request, timeout=60)
    assert response.status_code == 200, response.text
    assert response.headers["X-Coulisse-Provider"] == "openai"
    assert response.headers["X-Coulisse-Model"] == "org/gpt-test"
    assert '"coulisse":{"provider":"openai","model":"org/gpt-test"}' in response.text
    assert f'"model":"{model}"' in response.text
    if shown == "model":
        assert '"model":"assistant"' not in response.text


def test_rescue_is_told(server, configure, fake, user):
    configure(YAML.format(shown="agent"))
    fake.answer(ScriptedAnswer(("The end ",), cut="mid_stream"))
    fake.reply("is near.")
    read = frames(server, body(user))
    assert text_of(read) == "The end is near."
    assert read[-2]["coulisse"]["rescues"] == 1
    assert "rescues" not in post(server, body(user)).json()["coulisse"]
