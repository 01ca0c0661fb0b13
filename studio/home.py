"""The first page: who answers here."""

from rest_framework.request import Request
from rest_framework.response import Response

from agents.config import AGENTS
from config import live
from studio.faces import Face


class Home(Face):
    """What happens, at a glance."""

    title = "Home"
    template = "studio/home.html"

    def get(self, request: Request) -> Response:
        agents = live.current().get(AGENTS).values()
        shown = [
            {"name": agent.name, "provider": agent.provider, "model": agent.model}
            for agent in agents
        ]
        return self.answer({"agents": shown})
