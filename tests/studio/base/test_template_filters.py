"""Template filters format the details of audit entries."""

import pytest

from admin_base.templatetags.studio import NO_VALUE, readable_value


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (["judges", "agents"], "judges, agents"),
        ([[1, 407]], "1, 407"),
        ([], "none"),
        (True, "yes"),
        (None, NO_VALUE),
        (12_000, "12\u202f000"),
        ({"facts": 3, "threads": 0}, "facts: 3; threads: 0"),
        ("<b>", "<b>"),
    ],
)
def test_audit_details_are_readable(value, data):
    assert readable_value(value) == data
