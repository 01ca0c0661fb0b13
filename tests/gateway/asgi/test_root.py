"""`/`: redirects browsers to the studio, and returns 404 to other clients."""

import httpx2
import pytest

from tests.gateway.calls import error

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def test_root_redirects_browsers_to_the_studio(server):
    answer = httpx2.get(f"{server}/", headers={"Accept": BROWSER}, verify=False)
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/admin/"


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html;q=0.5, */*"])
def test_root_is_404_for_programs(server, accept):
    answer = httpx2.get(f"{server}/", headers={"Accept": accept}, verify=False)
    assert error(answer, 404)["type"] == "invalid_request_error"


def test_root_refuses_posts(server):
    answer = httpx2.post(f"{server}/", headers={"Accept": BROWSER}, verify=False)
    assert error(answer, 404)["message"]
