"""Where the pages of the studio are."""

from django.urls import path

from studio import entries, tables
from studio.audit import Audit
from studio.conversation import Messages, Threads
from studio.description import Description
from studio.door import URL_NAME
from studio.experiments import Results
from studio.facts import Facts
from studio.file import ConfigCheck, ConfigEditor, ConfigFile, ConfigSchema
from studio.file_entries import Mcp, OneMcp, OneProvider, Providers
from studio.home import Home
from studio.judge_work import JudgeScores, Past, Retry
from studio.kinds import KINDS
from studio.live import Events, Live
from studio.mcp_state import ConnectionFace, ConnectionsFace, ToolsFace
from studio.missing import Missing
from studio.one_fact import OneFact
from studio.person_pages import Everybody, Somebody
from studio.playground import Playground, PlaygroundTurns
from studio.sections import AnySection, MemoryFace, SectionFace, Settings
from studio.sidecars import Restart, Sidecars
from studio.smoke_runs import AllRuns, OneRun, RunCancelling, TestRuns
from studio.spend import Spend
from studio.tasks import Again, OneTask, TaskCancelling, Tasks
from studio.tokens import OneToken, Tokens, TokensEnabled
from studio.triggers import Firings, OneTrigger, Triggers
from studio.turns import OneTurn, Turns, UserTurns
from studio.user_scores import UserScores
from studio.users import Erasing, Export, OneUser, Users

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
    path("tasks/<str:id>/cancel", TaskCancelling.as_view()),
    path("sidecars", Sidecars.as_view()),
    path("sidecars/<path:name>/restart", Restart.as_view()),
    path("triggers", Triggers.as_view()),
    path("triggers/<path:name>/fire", Firings.as_view()),
    path("triggers/<path:name>", OneTrigger.as_view()),
    # Evaluate
    path("experiments/<path:name>/results", Results.as_view()),
    path("judges/<path:name>/past", Past.as_view()),
    path("judges/<path:name>/retry", Retry.as_view()),
    path("judges/<path:name>/scores", JudgeScores.as_view()),
    path("smoke/runs", AllRuns.as_view()),
    path("smoke/runs/<str:id>", OneRun.as_view()),
    path("smoke/runs/<str:id>/cancel", RunCancelling.as_view()),
    path("smoke/<path:name>/runs", TestRuns.as_view()),
    # Monitor
    path("audit", Audit.as_view()),
    path("users", Users.as_view()),
    path("users/<str:user>", OneUser.as_view()),
    path("users/<str:user>/erase", Erasing.as_view()),
    path("users/<str:user>/export", Export.as_view()),
    path("users/<str:user>/facts", Facts.as_view()),
    path("users/<str:user>/facts/<str:id>", OneFact.as_view()),
    path("users/<str:user>/messages", Messages.as_view()),
    path("users/<str:user>/scores", UserScores.as_view()),
    path("users/<str:user>/threads", Threads.as_view()),
    path("users/<str:user>/turns", UserTurns.as_view()),
    path("memory", MemoryFace.as_view()),
    path("spend", Spend.as_view()),
    path("turns", Turns.as_view()),
    path("turns/<str:id>", OneTurn.as_view()),
    # Configure
    path("tokens", Tokens.as_view()),
    path("tokens/enable", TokensEnabled.as_view()),
    path("tokens/<str:id>", OneToken.as_view()),
    path("people", Everybody.as_view()),
    path("people/<path:username>", Somebody.as_view()),
    path("settings", Settings.as_view()),
    path("settings/<str:key>", AnySection.as_view()),
    path("providers", Providers.as_view()),
    path("providers/<path:name>", OneProvider.as_view()),
    path("mcp", Mcp.as_view()),
    path("mcp/<str:name>", OneMcp.as_view()),
    path("mcp/<str:name>/connections", ConnectionsFace.as_view()),
    path("mcp/<str:name>/connections/<uuid:user>", ConnectionFace.as_view()),
    path("mcp/<str:name>/tools", ToolsFace.as_view()),
    path("memory/settings", SectionFace.as_view(key="memory")),
    path("auth", SectionFace.as_view(key="auth")),
    path("storage", SectionFace.as_view(key="storage")),
    path("telemetry", SectionFace.as_view(key="telemetry")),
    path("config", ConfigFile.as_view()),
    path("config/check", ConfigCheck.as_view()),
    path("config/edit", ConfigEditor.as_view()),
    path("config/schema", ConfigSchema.as_view()),
    path("openapi.json", Description.as_view()),
]
"""A line for each address, in the order of the menu; each module has its faces."""

for kind in KINDS:
    urlpatterns += entries.addresses(kind)

urlpatterns += [
    path("tables/", tables.addresses()),
    path("<path:rest>", Missing.as_view()),
]
