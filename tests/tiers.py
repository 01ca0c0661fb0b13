"""Which tests are slow: `make test` leaves them out, `make test-slow` runs them."""

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
    "tests/smoke/test_command.py::test_as_a_program",
    "tests/studio/test_description.py::test_a_client_is_made_of_it_and_works",
    "tests/turns/test_schema_children.py",
    "tests/access/test_token_command.py::test_a_pipe_captures_just_the_key",
    "tests/access/test_token_command.py::test_without_tables_it_says_so",
    # Much to compute, or many requests.
    "tests/gateway/test_failed_logins.py::test_the_longest_delays_are_told_as_final",
    "tests/gateway/test_hostile_schemas.py::test_check_that_doubles_with_each_reference",
    "tests/gateway/test_request_limits.py::test_export_holds_nothing_once_it_is_sent",
    "tests/gateway/test_secret_oracle.py",
    "tests/memory/test_sameness.py::test_any_text_can_be_compared",
    "tests/studio/test_every_answer.py",
    "tests/studio/test_every_write.py::test_every_change_is_in_the_audit_once",
    "tests/studio/test_security.py::test_no_address_fails_for_a_browser_or_a_script",
    "tests/studio/test_unusual_requests.py::test_json_that_cannot_be_stored_is_refused",
    "tests/test_patterns.py::test_time_grows_with_the_text",
)
"""Beginnings of node ids: directories, files and tests."""


def is_slow(node_id: str) -> bool:
    """Return whether a test is in the slow tier."""
    return node_id.startswith(SLOW)
