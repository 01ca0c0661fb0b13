"""Request validation besides pydantic: hosts, encoding, JSON size, image addresses; and
pydantic's errors in OpenAI's form."""
