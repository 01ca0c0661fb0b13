"""Where the pages of the studio are."""

from django.urls import path

from studio import entries, tables
from studio.audit import Audit
from studio.description import Description
from studio.door import URL_NAME
from studio.home import Home
from studio.kinds import KINDS
from studio.live import Events, Live
from studio.missing import Missing
from studio.person_pages import Everybody, Somebody
from studio.playground import Playground, PlaygroundTurns

from studio.tasks import Again, Cancelling, OneTask, Tasks
from studio.tokens import OneToken, Tokens

urlpatterns = [
    path("", Home.as_view(), name=URL_NAME),
    # Build
    path("playground", Playground.as_view()),
    path("playground/turns", PlaygroundTurns.as_view()),
    path("live", Live.as_view()),
    path("live/events", Events.as_view()),
    path("tasks", Tasks.as_view()),
    path("tasks/<str:id>", OneTask.as_view()),
    path("tasks/<str:id>/again", Again.as_view()),
    path("tasks/<str:id>/cancel", Cancelling.as_view()),
    # Monitor
    path("audit", Audit.as_view()),
    # Configure
    path("tokens", Tokens.as_view()),
    path("tokens/<str:id>", OneToken.as_view()),
    path("people", Everybody.as_view()),
    path("people/<path:username>", Somebody.as_view()),
    path("openapi.json", Description.as_view()),
]
"""A line for each address, in the order of the menu; each module has its faces."""

for kind in KINDS:
    urlpatterns += entries.addresses(kind)

urlpatterns += [
    path("tables/", tables.addresses()),
    path("<path:rest>", Missing.as_view()),
]
