"""Assertions on responses and their schemas."""


def assert_fits(schema, data):
    """Check that data fits a schema, with all of its fields and no others."""
    parsed = schema.model_validate(data).model_dump(mode="json", by_alias=True)
    _compare(data, parsed)


def _compare(data, parsed):
    if isinstance(data, dict):
        assert data.keys() <= parsed.keys(), data.keys() - parsed.keys()
        for name in data:
            _compare(data[name], parsed[name])
    elif isinstance(data, list):
        for item, parsed_item in zip(data, parsed, strict=True):
            _compare(item, parsed_item)
