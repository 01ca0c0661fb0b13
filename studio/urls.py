"""Where the pages of the studio are."""

from django.urls import path

from studio.base.not_found import Missing
from studio.configuration import entry_views
from studio.configuration.entry_types import KINDS
from studio.configuration.file_views import (
    ConfigCheck,
    ConfigEditor,
    ConfigFile,
    ConfigSchema,
)
from studio.configuration.map_section_views import Mcp, OneMcp, OneProvider, Providers
from studio.configuration.mcp_servers import ConnectionFace, ConnectionsFace, ToolsFace
from studio.configuration.section_views import (
    AnySection,
    MemoryFace,
    SectionFace,
    Settings,
)
from studio.evaluation.experiment_results import Results
from studio.evaluation.judge_views import JudgeScores, Past, Retry
from studio.evaluation.smoke_runs import AllRuns, OneRun, RunCancelling, TestRuns
from studio.live.views import Events, Live
from studio.monitoring.audit_log import Audit
from studio.monitoring.home import Home
from studio.monitoring.spend import Spend
from studio.monitoring.turn_views import OneTurn, Turns, UserTurns
from studio.openapi.document import Description
from studio.operations import table_browser
from studio.operations.api_tokens import OneToken, Tokens, TokensEnabled
from studio.operations.background_tasks import Again, OneTask, TaskCancelling, Tasks
from studio.operations.playground import Playground, PlaygroundTurns
from studio.operations.sidecar_views import Restart, Sidecars
from studio.operations.studio_accounts import Everybody, Somebody
from studio.operations.trigger_views import Firings, OneTrigger, Triggers
from studio.server.access_middleware import URL_NAME
from studio.user_pages.conversations import Messages, Threads
from studio.user_pages.fact_detail import OneFact
from studio.user_pages.fact_list import Facts
from studio.user_pages.score_list import UserScores
from studio.user_pages.user_views import Erasing, Export, OneUser, Users

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
    urlpatterns += entry_views.addresses(kind)

urlpatterns += [
    path("tables/", table_browser.addresses()),
    path("<path:rest>", Missing.as_view()),
]
