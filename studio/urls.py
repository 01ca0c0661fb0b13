"""The URLs of the studio."""

from django.urls import path

from studio.base.not_found import NotFoundView
from studio.configuration import entry_views
from studio.configuration.entry_types import KINDS
from studio.configuration.file_views import (
    CheckConfigView,
    ConfigEditorView,
    ConfigFileView,
    ConfigSchemaView,
)
from studio.configuration.map_section_views import (
    McpServerListView,
    McpServerView,
    ProviderListView,
    ProviderView,
)
from studio.configuration.mcp_servers import (
    McpConnectionListView,
    McpConnectionView,
    McpToolsView,
)
from studio.configuration.section_views import (
    MemoryView,
    RemovableSectionView,
    SectionView,
    SettingsView,
)
from studio.evaluation.experiment_results import ExperimentResultsView
from studio.evaluation.judge_views import (
    JudgeScoresView,
    PastRepliesView,
    RetryJudgingView,
)
from studio.evaluation.smoke_runs import (
    CancelSmokeRunView,
    SmokeRunListView,
    SmokeRunView,
    SmokeTestRunListView,
)
from studio.live.views import LiveEventsView, LiveView
from studio.monitoring.audit_log import AuditLogView
from studio.monitoring.home import HomeView
from studio.monitoring.spend import SpendView
from studio.monitoring.turn_views import TurnListView, TurnView, UserTurnListView
from studio.openapi.document import OpenApiView
from studio.operations import table_browser
from studio.operations.api_tokens import EnableTokensView, TokenListView, TokenView
from studio.operations.background_tasks import (
    CancelTaskView,
    RetryTaskView,
    TaskListView,
    TaskView,
)
from studio.operations.playground import PlaygroundTurnView, PlaygroundView
from studio.operations.sidecar_views import RestartSidecarView, SidecarListView
from studio.operations.studio_accounts import AccountListView, AccountView
from studio.operations.trigger_views import (
    RunTriggerView,
    TriggerListView,
    TriggerView,
)
from studio.server.access_middleware import URL_NAME
from studio.user_pages.conversations import MessageListView, ThreadListView
from studio.user_pages.fact_detail import FactView
from studio.user_pages.fact_list import FactListView
from studio.user_pages.score_list import UserScoresView
from studio.user_pages.user_views import (
    EraseUserView,
    ExportUserView,
    UserDetailView,
    UserListView,
)

urlpatterns = [
    path("", HomeView.as_view(), name=URL_NAME),
    # Build
    path("playground", PlaygroundView.as_view()),
    path("playground/turns", PlaygroundTurnView.as_view()),
    path("live", LiveView.as_view()),
    path("live/events", LiveEventsView.as_view()),
    path("tasks", TaskListView.as_view()),
    path("tasks/<str:id>", TaskView.as_view()),
    path("tasks/<str:id>/retry", RetryTaskView.as_view()),
    path("tasks/<str:id>/cancel", CancelTaskView.as_view()),
    path("sidecars", SidecarListView.as_view()),
    path("sidecars/<path:name>/restart", RestartSidecarView.as_view()),
    path("triggers", TriggerListView.as_view()),
    path("triggers/<path:name>/run", RunTriggerView.as_view()),
    path("triggers/<path:name>", TriggerView.as_view()),
    # Evaluate
    path("experiments/<path:name>/results", ExperimentResultsView.as_view()),
    path("judges/<path:name>/past-replies", PastRepliesView.as_view()),
    path("judges/<path:name>/retry", RetryJudgingView.as_view()),
    path("judges/<path:name>/scores", JudgeScoresView.as_view()),
    path("smoke/runs", SmokeRunListView.as_view()),
    path("smoke/runs/<str:id>", SmokeRunView.as_view()),
    path("smoke/runs/<str:id>/cancel", CancelSmokeRunView.as_view()),
    path("smoke/<path:name>/runs", SmokeTestRunListView.as_view()),
    # Monitor
    path("audit", AuditLogView.as_view()),
    path("users", UserListView.as_view()),
    path("users/<str:user>", UserDetailView.as_view()),
    path("users/<str:user>/erase", EraseUserView.as_view()),
    path("users/<str:user>/export", ExportUserView.as_view()),
    path("users/<str:user>/facts", FactListView.as_view()),
    path("users/<str:user>/facts/<str:id>", FactView.as_view()),
    path("users/<str:user>/messages", MessageListView.as_view()),
    path("users/<str:user>/scores", UserScoresView.as_view()),
    path("users/<str:user>/threads", ThreadListView.as_view()),
    path("users/<str:user>/turns", UserTurnListView.as_view()),
    path("memory", MemoryView.as_view()),
    path("spend", SpendView.as_view()),
    path("turns", TurnListView.as_view()),
    path("turns/<str:id>", TurnView.as_view()),
    # Configure
    path("tokens", TokenListView.as_view()),
    path("tokens/enable", EnableTokensView.as_view()),
    path("tokens/<str:id>", TokenView.as_view()),
    path("accounts", AccountListView.as_view()),
    path("accounts/<path:username>", AccountView.as_view()),
    path("settings", SettingsView.as_view()),
    path("settings/<str:key>", RemovableSectionView.as_view()),
    path("providers", ProviderListView.as_view()),
    path("providers/<path:name>", ProviderView.as_view()),
    path("mcp", McpServerListView.as_view()),
    path("mcp/<str:name>", McpServerView.as_view()),
    path("mcp/<str:name>/connections", McpConnectionListView.as_view()),
    path("mcp/<str:name>/connections/<uuid:user>", McpConnectionView.as_view()),
    path("mcp/<str:name>/tools", McpToolsView.as_view()),
    path("memory/settings", SectionView.as_view(key="memory")),
    path("auth", SectionView.as_view(key="auth")),
    path("storage", SectionView.as_view(key="storage")),
    path("telemetry", SectionView.as_view(key="telemetry")),
    path("config", ConfigFileView.as_view()),
    path("config/check", CheckConfigView.as_view()),
    path("config/edit", ConfigEditorView.as_view()),
    path("config/schema", ConfigSchemaView.as_view()),
    path("openapi.json", OpenApiView.as_view()),
]
"""One line per address, in the order of the menu."""

for kind in KINDS:
    urlpatterns += entry_views.build_urls(kind)

urlpatterns += [
    path("tables/", table_browser.table_urls()),
    path("<path:rest>", NotFoundView.as_view()),
]
