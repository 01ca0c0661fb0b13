"""The pages of the studio."""

from django.http import HttpRequest

from agents.config import AGENTS
from config import live
from gateway.pages import Page


def home(request: HttpRequest) -> Page:
    """Return the first page: who answers here."""
    return Page("studio/home.html", agents=live.current().get(AGENTS).values())


def missing(request: HttpRequest, rest: str) -> Page:
    """Return the page that is in place of one there is not."""
    return Page("studio/missing.html", status=404)
