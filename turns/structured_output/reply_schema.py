"""The JSON Schema of a `response_format`: its limits, compilation and check.

Schemas of a cheap subset are compiled and checked in this process, all others in a
child process. Validators, and which schemas are valid, are cached by the schema's
digest.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from core.validation import schema_limits
from core.validation.schema_limits import SchemaTooLarge
from turns.errors import SchemaInvalid
from turns.structured_output import schema_cost, schema_worker, schema_worker_pool
from turns.structured_output.schema_cost import SchemaWeight

PARAMETER = "response_format.json_schema.schema"

MAX_CACHE_BYTES = 256 * 1024
"""Maximum bytes of the cached schemas; a validator takes up to 70 times more."""
MIN_ENTRY_BYTES = 256

COST_PHRASES = {"memory": "too much memory", "time": "too long"}


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A valid schema."""

    weight: SchemaWeight | None
    """None if a child process checks it."""
    validator: Any = None


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """A schema within the limits. Its validity is unknown until it is compiled."""

    value: Any
    json: bytes
    """The schema as JSON."""
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha256(self.json).digest())

    async def compile(self) -> CompiledSchema:
        """Compile it here or in a child process; raises `SchemaInvalid`.

        Raises `SchemaChecksBusy` if too many requests wait for a child process.
        """
        compiled = _cache.get(self.digest)
        if compiled is None:
            compiled = await self._compile()
            _cache.put(self.digest, compiled, len(self.json))
        return compiled

    async def _compile(self) -> CompiledSchema:
        weight = schema_cost.weight(self.value, len(self.json))
        if weight is not None:
            try:
                validator = schema_worker.compile_schema(self.value)
            except ValueError as exc:
                raise _schema_invalid(str(exc)) from exc
            return CompiledSchema(weight, validator)
        try:
            error = await schema_worker_pool.compile_error(self.json)
        except schema_worker_pool.CheckTooCostly as exc:
            raise _schema_too_costly(exc, "compile") from exc
        if error is not None:
            raise _schema_invalid(error)
        return CompiledSchema(None)

    async def first_error(self, text: str, value: Any) -> str | None:
        """Return the first mismatch of a reply and its location, or None.

        `value` is `text` as parsed. Raises `SchemaInvalid` if the check costs too much.
        """
        compiled = await self.compile()
        reply = text.encode("utf-8", "surrogatepass")
        weight = compiled.weight
        if weight is not None and weight.is_checkable_inline(len(reply)):
            if schema_worker.is_valid(compiled.validator, value):
                return None
            if weight.is_explainable_inline(len(reply)):
                return schema_worker.first_error(compiled.validator, value)
        try:
            return await schema_worker_pool.first_error(self.json, reply)
        except schema_worker_pool.CheckTooCostly as exc:
            raise _schema_too_costly(exc, "check a reply against") from exc


def from_client(schema: Any) -> ReplySchema:
    """Return a client's schema; raises `SchemaInvalid` for one beyond the limits."""
    try:
        return ReplySchema(schema, schema_limits.check_schema(schema))
    except SchemaTooLarge as exc:
        raise SchemaInvalid(f"{PARAMETER} {exc}") from exc


def _schema_invalid(error: str) -> SchemaInvalid:
    return SchemaInvalid(f"{PARAMETER} is not a valid JSON Schema: {error}")


def _schema_too_costly(
    error: schema_worker_pool.CheckTooCostly, work: str
) -> SchemaInvalid:
    return SchemaInvalid(
        f"{PARAMETER} takes {COST_PHRASES[str(error)]} to {work}: use fewer or simpler "
        "patterns, references and alternatives"
    )


class _SchemaCache:
    """The most recently compiled schemas, up to `MAX_CACHE_BYTES`."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, tuple[CompiledSchema, int]] = OrderedDict()
        self._size = 0

    def get(self, digest: bytes) -> CompiledSchema | None:
        entry = self._entries.pop(digest, None)
        if entry is None:
            return None
        self._entries[digest] = entry
        return entry[0]

    def put(self, digest: bytes, compiled: CompiledSchema, size: int) -> None:
        # For a schema that a child checks, only the fact that it is valid is stored.
        size = MIN_ENTRY_BYTES + (0 if compiled.weight is None else size)
        _, old_size = self._entries.pop(digest, (compiled, 0))
        self._entries[digest] = compiled, size
        self._size += size - old_size
        while self._size > MAX_CACHE_BYTES:
            _, (_, oldest_size) = self._entries.popitem(last=False)
            self._size -= oldest_size


_cache = _SchemaCache()
