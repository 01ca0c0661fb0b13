import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from providers.transport import http_request

ROOT = Path(__file__).parents[3]
MAX_FILES = 12


def files_of_stack(frame: FrameType | None) -> set[str]:
    """Return the product files of a stack, coroutines that wait included."""
    files = set()
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT) and ".venv" not in path.parts:
            files.add(path.relative_to(ROOT).as_posix())
        frame = frame.f_back
    return {name for name in files if not name.startswith("tests/")}


@pytest.mark.parametrize("stream", [False, True])
async def test_request_passes_few_files_between_socket_and_provider(
    async_client, fake, user, monkeypatch, stream: bool
) -> None:
    files: set[str] = set()
    get_session = http_request._session

    def session() -> Any:
        files.update(files_of_stack(sys._getframe()))
        return get_session()

    monkeypatch.setattr(http_request, "_session", session)
    fake.reply("Hello")
    reply = await async_client.chat.completions.create(
        model="assistant",
        messages=[{"role": "user", "content": "Hi"}],
        user=user,
        stream=stream,
    )
    if stream:
        async for _ in reply:
            pass
    expected = {"gateway/openai/turn_response.py", "turns/flow.py", "agents/loop.py"}
    assert expected < files
    assert len(files) <= MAX_FILES, sorted(files)
