"""Whether an answer is what the studio's description says it is."""


def assert_fits(shape, told):
    """Check that an answer has a shape, with all of its fields and no others."""
    read = shape.model_validate(told).model_dump(mode="json", by_alias=True)
    _compare(told, read)


def _compare(told, read):
    if isinstance(told, dict):
        assert told.keys() <= read.keys(), told.keys() - read.keys()
        for name in told:
            _compare(told[name], read[name])
    elif isinstance(told, list):
        for one, other in zip(told, read, strict=True):
            _compare(one, other)
