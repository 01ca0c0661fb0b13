"""Which tests are slow, which start first, and which run only on SQLite."""

SLOW = (
    # They start processes, a browser, or clients in other languages.
    "tests/access/test_broken_pipe.py",
    "tests/bench/",
    "tests/browser/",
    "tests/mcp_bridge/oauth/test_refresh_across_processes.py",
    "tests/processes/commands/test_local_model.py",
    "tests/processes/commands/test_migrate.py",
    "tests/processes/commands/test_runserver.py",
    "tests/processes/commands/test_start.py",
    "tests/processes/commands/test_stop.py",
    "tests/processes/integration/",
    "tests/processes/sidecars/test_sidecar_manager.py",
    "tests/processes/supervision/test_supervisor.py",
    "tests/processes/test_deployment.py",
    "tests/processes/test_terminal_chat.py::test_chat_at_a_terminal",
    "tests/smoke/test_smoke_command.py::test_program_exits_with_130",
    "tests/studio/openapi/test_openapi_document.py::test_generated_client_works",
    "tests/turns/structured_output/test_schema_worker_pool.py",
    "tests/upgrades/test_last_release.py",
    "tests/upgrades/test_pgbouncer.py",
    "tests/access/test_token_command.py::test_pipe_captures_only_the_key",
    "tests/access/test_token_command.py::test_missing_tables_error_names_migrate",
    # They compute much or send many requests.
    "tests/gateway/auth/test_failed_logins.py::test_longest_delay_is_not_retryable",
    "tests/gateway/security/test_hostile_schemas.py::test_exponential_reference_check_ends",
    "tests/gateway/limits/request_limits/test_counted_requests.py::test_sent_export_releases_its_slot",
    "tests/gateway/security/test_secret_oracle.py",
    "tests/memory/facts/test_equivalence.py::test_any_text_can_be_compared",
    "tests/studio/openapi/test_demo_responses.py",
    "tests/studio/site_wide/test_audited_writes.py::test_every_change_is_audited_once",
    "tests/studio/security/test_hardening.py::test_every_address_answers_browsers_and_scripts",
    "tests/studio/site_wide/test_unusual_requests.py::test_json_that_cannot_be_stored_is_refused",
    "tests/patterns/test_linear_time.py::test_time_grows_with_the_text",
    "tests/tasks/test_large_queue.py",
)
"""Prefixes of node ids: directories, files and tests."""

LONGEST = (
    "tests/browser/",
    "tests/processes/integration/test_user_namespace.py",
    "tests/bench/test_bench.py",
    "tests/processes/commands/test_start.py",
    "tests/processes/supervision/test_supervisor.py",
    "tests/gateway/security/test_secret_oracle.py",
    "tests/turns/structured_output/test_schema_worker_pool.py",
)
"""Started first, so that no worker runs them alone at the end."""
ONE_WORKER = "tests/browser/"
"""Tests that run in one worker: starting its server and browser takes longer than most
of the tests."""

SQLITE_ONLY = (
    # Validation, formats and timings of requests, which do not depend on tables.
    "tests/gateway/asgi/test_admission.py",
    "tests/gateway/auth/authentication/",
    "tests/gateway/auth/test_user_identification.py",
    "tests/gateway/openai/client_tools/",
    "tests/gateway/security/test_content_type.py",
    "tests/gateway/asgi/test_disconnect.py",
    "tests/gateway/limits/provider_faults/",
    "tests/gateway/asgi/test_health.py",
    "tests/gateway/metrics/test_access.py",
    "tests/gateway/metrics/test_deployment.py",
    "tests/gateway/turns/test_webhooks.py",
    "tests/gateway/security/test_hostile_schemas.py",
    "tests/gateway/security/test_hostile_texts.py::test_chats_do_not_stall_the_server",
    "tests/gateway/security/test_hostile_texts.py::test_editor_files_do_not_stall_the_server",
    "tests/gateway/security/test_hostile_texts.py::test_request_heads_do_not_stall_the_server",
    "tests/core/test_hosts.py",
    "tests/gateway/mcp/server/",
    "tests/gateway/security/test_media_data.py",
    "tests/gateway/auth/oidc/",
    "tests/gateway/openai/test_parameters.py",
    "tests/gateway/security/test_private_details.py",
    "tests/gateway/asgi/test_request_ids.py",
    "tests/gateway/auth/test_request_user.py",
    "tests/gateway/security/test_secret_oracle.py::test_redaction_takes_equal_steps",
    "tests/gateway/security/test_secret_oracle.py::test_response_is_equal_for_secret_and_decoy",
    "tests/gateway/asgi/test_shutdown.py",
    "tests/gateway/openai/test_stream.py",
    "tests/gateway/openai/test_mcp_tools.py",
    "tests/gateway/limits/test_unreported_usage.py",
    "tests/turns/test_reply_language.py",
    "tests/turns/test_options.py",
    "tests/turns/structured_output/test_reply_schema.py",
    "tests/turns/structured_output/test_reply_format.py",
    # Formats, roles and addresses of pages; other tests read their rows on both.
    "tests/studio/openapi/test_openapi_document.py",
    "tests/studio/site_wide/test_addresses.py",
    "tests/studio/base/test_views.py",
    "tests/studio/base/test_error_responses.py",
    "tests/studio/configuration/config_file/test_missing_file.py",
    "tests/studio/live/test_live_page.py",
    "tests/studio/base/test_content_negotiation.py",
    "tests/studio/configuration/config_file/test_section_removal.py",
    "tests/studio/operations/test_playground.py",
    "tests/studio/security/test_hardening.py",
)
"""Tests with tables that do not run on PostgreSQL: each of their statements is also
sent by a test that runs on both databases."""


CLIENTS = "tests/clients/"
"""Tests with packages of their own, which only `make test-clients` installs."""


def is_slow(node_id: str) -> bool:
    """Return whether a test is in the slow tier."""
    return node_id.startswith(SLOW)


def needs_clients(node_id: str) -> bool:
    """Return whether a test runs the programs of other packages."""
    return node_id.startswith(CLIENTS)


def is_sqlite_only(node_id: str) -> bool:
    """Return whether a test runs only on SQLite."""
    return node_id.startswith(SQLITE_ONLY)


def rank(node_id: str) -> int:
    """Return the position of a test within its tier."""
    ranks = (rank for rank, start in enumerate(LONGEST) if node_id.startswith(start))
    return next(ranks, len(LONGEST))


def scope(node_id: str) -> str:
    """Return the unit that one worker runs: a file, or all of `ONE_WORKER`."""
    return ONE_WORKER if node_id.startswith(ONE_WORKER) else node_id.partition("::")[0]
