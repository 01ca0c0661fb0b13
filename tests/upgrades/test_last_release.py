"""The code of the last release on the tables of this one: upgrades and rollbacks."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import pytest

from testing.scripted_provider import FakeProvider
from tests.upgrades import fleet
from tests.upgrades.fleet import Server

pytestmark = [
    pytest.mark.database,
    pytest.mark.skipif(
        not fleet.has_last_release(),
        reason="git lacks the commit of tests/upgrades/last_release.txt: "
        "`git fetch --unshallow`",
    ),
]
TURNS = 60


@pytest.fixture(scope="module")
def old_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fleet.extract_last_release(tmp_path_factory.mktemp("release") / "code")


@pytest.fixture
def make_server(
    tmp_path: Path, old_code: Path, fake: FakeProvider, database_url: str
) -> Callable[..., Server]:
    def make(name: str, *, is_old: bool) -> Server:
        code = old_code if is_old else None
        server = Server(tmp_path / name, fake.base_url, code)
        if database_url:
            server.environment["DATABASE_URL"] = database_url
        return server

    return make


def use(server: Server, user: str) -> None:
    """Do what users and operators do; fails at an error."""
    server.chat(user)
    server.chat(user, "And then?")
    server.wait_for_task(server.add_task(user), user)
    server.edit_agent(f"helps {user}")
    assert server.knows_purpose(f"helps {user}")
    assert server.failing_pages() == []


def test_last_release_runs_on_the_new_tables(
    make_server: Callable[..., Server],
) -> None:
    old = make_server("fleet", is_old=True)
    with old.serving("web,worker,beat"):
        use(old, "ann")
    old.upgrade()
    with old.serving("web,worker,beat"):
        use(old, "ann")
        use(old, "bob")


@pytest.mark.skipif(not fleet.postgresql_url(), reason="SQLite has one server")
def test_both_releases_serve_side_by_side(make_server: Callable[..., Server]) -> None:
    old, new = make_server("old", is_old=True), make_server("new", is_old=False)
    with old.serving("web,worker,beat"):
        use(old, "ann")
        with ThreadPoolExecutor(4) as executor:
            during = [executor.submit(old.chat, f"user{n % 7}") for n in range(TURNS)]
            old.upgrade()
        assert [chat.result() for chat in during]
        with new.serving("web,worker,beat", COULISSE_MIGRATE="off"):
            chats = zip(range(TURNS), cycle([old, new]), strict=False)
            with ThreadPoolExecutor(4) as executor:
                replies = [
                    executor.submit(server.chat, f"user{number % 7}")
                    for number, server in chats
                ]
            assert [reply.result() for reply in replies]
            use(new, "bob")
            use(old, "bob")
        # The rollback.
        use(old, "bob")
