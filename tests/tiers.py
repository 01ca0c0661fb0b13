"""Which tests are slow, which begin first, and which run on SQLite alone."""

SLOW = (
    # Processes, a browser, clients in other languages.
    "tests/access/test_unread_output.py",
    "tests/bench/",
    "tests/browser/",
    "tests/mcp_bridge/sign_in/test_processes.py",
    "tests/processes/test_background.py",
    "tests/processes/test_deployment.py",
    "tests/processes/test_killed_task.py",
    "tests/processes/test_killed_turn.py",
    "tests/processes/test_live.py",
    "tests/processes/test_logs.py",
    "tests/processes/test_migrate.py",
    "tests/processes/test_real_app.py",
    "tests/processes/test_sidecars.py",
    "tests/processes/test_start.py",
    "tests/processes/test_stop.py",
    "tests/processes/test_supervisor.py",
    "tests/processes/test_user_namespace.py",
    "tests/smoke/test_command.py::test_program_exits_with_130",
    "tests/studio/test_description.py::test_generated_client_works",
    "tests/turns/test_schema_children.py",
    "tests/access/test_token_command.py::test_pipe_captures_only_the_key",
    "tests/access/test_token_command.py::test_missing_tables_error_names_migrate",
    # Much to compute, or many requests.
    "tests/gateway/test_failed_logins.py::test_longest_delay_is_not_retryable",
    "tests/gateway/test_hostile_schemas.py::test_exponential_reference_check_ends",
    "tests/gateway/test_request_limits.py::test_sent_export_releases_its_slot",
    "tests/gateway/test_secret_oracle.py",
    "tests/memory/test_sameness.py::test_any_text_can_be_compared",
    "tests/studio/test_every_answer.py",
    "tests/studio/test_every_write.py::test_every_change_is_audited_once",
    "tests/studio/test_security.py::test_every_address_answers_browsers_and_scripts",
    "tests/studio/test_unusual_requests.py::test_json_that_cannot_be_stored_is_refused",
    "tests/test_patterns.py::test_time_grows_with_the_text",
)
"""Beginnings of node ids: directories, files and tests."""

LONGEST = (
    "tests/browser/",
    "tests/processes/test_user_namespace.py",
    "tests/bench/test_bench.py",
    "tests/processes/test_start.py",
    "tests/processes/test_supervisor.py",
    "tests/gateway/test_secret_oracle.py",
    "tests/turns/test_schema_children.py",
)
"""Begun first, so that no worker is left alone with them at the end."""
TOGETHER = "tests/browser/"
"""What one worker runs: its server and its browser take longer to start than most of
its tests."""

SQLITE_ONLY = (
    # Refusals, shapes and timings of requests: nothing of them is in a table.
    "tests/gateway/test_admission.py",
    "tests/gateway/test_authentication.py",
    "tests/gateway/test_callers.py",
    "tests/gateway/test_client_tools.py",
    "tests/gateway/test_content_type.py",
    "tests/gateway/test_disconnect.py",
    "tests/gateway/test_faults.py",
    "tests/gateway/test_health.py",
    "tests/gateway/test_hooks.py",
    "tests/gateway/test_hostile_schemas.py",
    "tests/gateway/test_hostile_texts.py::test_chats_do_not_stall_the_server",
    "tests/gateway/test_hostile_texts.py::test_editor_files_do_not_stall_the_server",
    "tests/gateway/test_hostile_texts.py::test_request_heads_do_not_stall_the_server",
    "tests/gateway/test_hosts.py",
    "tests/gateway/test_house.py",
    "tests/gateway/test_image_urls.py",
    "tests/gateway/test_oidc.py",
    "tests/gateway/test_parameters.py",
    "tests/gateway/test_private_details.py",
    "tests/gateway/test_request_ids.py",
    "tests/gateway/test_request_user.py",
    "tests/gateway/test_secret_oracle.py::test_redaction_takes_equal_steps",
    "tests/gateway/test_secret_oracle.py::test_response_is_equal_for_secret_and_decoy",
    "tests/gateway/test_shutdown.py",
    "tests/gateway/test_stream.py",
    "tests/gateway/test_tool_servers.py",
    "tests/gateway/test_unreported_usage.py",
    "tests/turns/test_language.py",
    "tests/turns/test_options.py",
    "tests/turns/test_reply_schema.py",
    "tests/turns/test_structured.py",
    # Formats, roles and addresses of pages whose rows other tests read on both.
    "tests/studio/test_description.py",
    "tests/studio/test_every_address.py",
    "tests/studio/test_faces.py",
    "tests/studio/test_faults.py",
    "tests/studio/test_file_gone.py",
    "tests/studio/test_live.py",
    "tests/studio/test_negotiation.py",
    "tests/studio/test_no_section.py",
    "tests/studio/test_playground.py",
    "tests/studio/test_security.py",
)
"""Tests that touch tables, and need not do so on PostgreSQL as well: each of their
statements is also sent by a test that runs on both."""


def is_slow(node_id: str) -> bool:
    """Return whether a test is in the slow tier."""
    return node_id.startswith(SLOW)


def is_sqlite_only(node_id: str) -> bool:
    """Return whether a test stays away from PostgreSQL."""
    return node_id.startswith(SQLITE_ONLY)


def rank(node_id: str) -> int:
    """Return when a test begins, among those of its tier."""
    ranks = (rank for rank, start in enumerate(LONGEST) if node_id.startswith(start))
    return next(ranks, len(LONGEST))


def scope(node_id: str) -> str:
    """Return what a worker is given at once: a file, or all that belongs together."""
    return TOGETHER if node_id.startswith(TOGETHER) else node_id.partition("::")[0]
