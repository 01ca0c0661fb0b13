"""The URLs of the studio."""

from django.urls import URLPattern, path

from config.sections import registered_sections
from studio.configuration import entry_views
from studio.configuration.entry_types import KINDS
from studio.configuration.file_views import (
    SECTION_URLS,
    CheckConfigView,
    ConfigEditorView,
    ConfigFileView,
    ConfigSchemaView,
)
from studio.configuration.mcp_servers import McpConnectionView, McpToolsView
from studio.configuration.section_views import (
    MapEntryView,
    McpServerListView,
    McpServerView,
    MemoryView,
    ProviderListView,
    RemovableSectionView,
    SectionView,
)
from studio.configuration.settings_view import SettingsView
from studio.configuration.token_switch import EnableTokensView
from studio.evaluation.experiment_results import ExperimentResultsView
from studio.evaluation.judge_views import PastRepliesView, RetryJudgingView
from studio.live.views import LiveEventsView, LiveView
from studio.monitoring.home import HomeView
from studio.monitoring.spend import SpendView
from studio.openapi.document import OpenApiView
from studio.operations import tables
from studio.operations.playground import PlaygroundTurnView, PlaygroundView
from studio.operations.sidecar_views import RestartSidecarView, SidecarListView
from studio.operations.trigger_views import RunTriggerView, TriggerListView, TriggerView

urlpatterns = [
    path("", HomeView.as_view(), name="index"),
    # Build
    path("playground", PlaygroundView.as_view()),
    path("playground/turns", PlaygroundTurnView.as_view()),
    path("live", LiveView.as_view()),
    path("live/events", LiveEventsView.as_view()),
    path("sidecars", SidecarListView.as_view()),
    path("sidecars/<path:name>/restart", RestartSidecarView.as_view()),
    path("triggers", TriggerListView.as_view()),
    path("triggers/<path:name>/run", RunTriggerView.as_view()),
    path("triggers/<path:name>", TriggerView.as_view()),
    # Evaluate
    path("experiments/<path:name>/results", ExperimentResultsView.as_view()),
    path("judges/<path:name>/past-replies", PastRepliesView.as_view()),
    path("judges/<path:name>/retry", RetryJudgingView.as_view()),
    # Monitor
    path("memory", MemoryView.as_view()),
    path("spend", SpendView.as_view()),
    # Configure
    path("tokens/enable", EnableTokensView.as_view()),
    path("settings", SettingsView.as_view()),
    *(
        path(f"settings/{key}", RemovableSectionView.as_view(key=key))
        for key in registered_sections().keys() - SECTION_URLS.keys()
    ),
    path("settings/<str:key>", RemovableSectionView.as_view(schema=None)),
    path("providers", ProviderListView.as_view()),
    path("providers/<path:name>", MapEntryView.as_view(key="providers")),
    path("mcp", McpServerListView.as_view()),
    path("mcp/<str:name>", McpServerView.as_view()),
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
    path("tables", tables.TableListView.as_view()),
    path("openapi.json", OpenApiView.as_view()),
]
"""One line per address, in the order of the menu."""


def entry_urls() -> list[URLPattern]:
    """Return the addresses of entries, whose names may contain slashes."""
    return [url for kind in KINDS for url in entry_views.build_urls(kind)]
