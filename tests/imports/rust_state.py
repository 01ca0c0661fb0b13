"""Build state directories of the Rust version, with its tables."""

import hashlib
import itertools
import json
import sqlite3
import struct
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

SCHEMA = """
CREATE TABLE coulisse_schema_versions (name TEXT NOT NULL PRIMARY KEY,
    version TEXT NOT NULL);
CREATE TABLE messages (content TEXT NOT NULL, created_at INTEGER NOT NULL,
    id TEXT NOT NULL PRIMARY KEY, role TEXT NOT NULL, token_count INTEGER NOT NULL,
    user_id TEXT NOT NULL);
CREATE INDEX idx_messages_user ON messages(user_id);
CREATE TABLE memories (content TEXT NOT NULL, created_at INTEGER NOT NULL,
    embedding BLOB NOT NULL, embedding_dims INTEGER NOT NULL,
    embedding_model TEXT NOT NULL, id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL,
    user_id TEXT NOT NULL);
CREATE INDEX idx_memories_user ON memories(user_id);
CREATE TABLE scores (agent_name TEXT NOT NULL, created_at INTEGER NOT NULL,
    criterion TEXT NOT NULL, id TEXT NOT NULL PRIMARY KEY, judge_model TEXT NOT NULL,
    judge_name TEXT NOT NULL, message_id TEXT NOT NULL, reasoning TEXT NOT NULL,
    score REAL NOT NULL, user_id TEXT NOT NULL);
CREATE TABLE api_tokens (budget_kind TEXT NOT NULL, budget_micro_usd INTEGER,
    created_at INTEGER NOT NULL, id TEXT NOT NULL PRIMARY KEY, label TEXT NOT NULL,
    last_used_at INTEGER, principal TEXT NOT NULL, revoked_at INTEGER,
    secret_hash TEXT NOT NULL UNIQUE);
CREATE TABLE token_usage (cost_micro_usd INTEGER NOT NULL, created_at INTEGER NOT NULL,
    id TEXT NOT NULL PRIMARY KEY, token_id TEXT NOT NULL);
CREATE TABLE dynamic_agents (config_json TEXT, created_at INTEGER NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0, name TEXT NOT NULL PRIMARY KEY,
    updated_at INTEGER NOT NULL);
CREATE TABLE dynamic_judges (config_json TEXT, created_at INTEGER NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0, name TEXT NOT NULL PRIMARY KEY,
    updated_at INTEGER NOT NULL);
CREATE TABLE dynamic_experiments (config_json TEXT, created_at INTEGER NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0, name TEXT NOT NULL PRIMARY KEY,
    updated_at INTEGER NOT NULL);
CREATE TABLE dynamic_smoke_tests (config_json TEXT, created_at INTEGER NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0, name TEXT NOT NULL PRIMARY KEY,
    updated_at INTEGER NOT NULL);
CREATE TABLE storage_files (bytes INTEGER NOT NULL, content_type TEXT NOT NULL,
    created_at INTEGER NOT NULL, filename TEXT NOT NULL, id TEXT NOT NULL PRIMARY KEY,
    purpose TEXT NOT NULL, sha256 TEXT NOT NULL, storage_key TEXT NOT NULL,
    user_id TEXT NOT NULL);
CREATE TABLE events (correlation_id TEXT NOT NULL, created_at INTEGER NOT NULL,
    duration_ms INTEGER, id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL,
    parent_id TEXT, payload TEXT NOT NULL, user_id TEXT NOT NULL);
"""
START = 1_760_000_000
"""The time of the first row, in seconds since 1970."""


def user_id_of(name: str) -> uuid.UUID:
    """Return the user of a name, as the Rust version derives it."""
    return uuid.uuid5(uuid.NAMESPACE_OID, name)


class RustState:
    """A state directory; each method adds a row, one second after the one before."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self.path = directory / "coulisse-memory.db"
        self._seconds = itertools.count(START)
        self.execute(SCHEMA)

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute("PRAGMA synchronous=OFF")
            yield database

    def execute(self, script: str) -> None:
        with self.open() as database:
            database.executescript(script)

    def insert(self, table: str, **values) -> str:
        """Add a row with a new id, and return the id."""
        values = {"id": str(uuid.uuid4()), "created_at": next(self._seconds)} | values
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        with self.open() as database:
            query = f"INSERT INTO {table} ({names}) VALUES ({marks})"
            database.execute(query, list(values.values()))
        return values["id"]

    def message(self, user, role: str, content, **values) -> str:
        values = {"token_count": 1, "user_id": str(user)} | values
        return self.insert("messages", role=role, content=content, **values)

    def memory(self, user, content: str, kind: str = "fact", **values) -> str:
        vector = values.pop("vector", [0.0, 1.0])
        values = {
            "embedding": struct.pack(f"<{len(vector)}f", *vector),
            "embedding_dims": len(vector),
            "embedding_model": "hash-2",
            "user_id": str(user),
        } | values
        return self.insert("memories", content=content, kind=kind, **values)

    def token(self, principal: str, digest: str, **values) -> str:
        values = {"label": "laptop", "budget_kind": "unlimited"} | values
        return self.insert(
            "api_tokens", principal=principal, secret_hash=digest, **values
        )

    def spend(self, token: str, micro_usd: int, at: int) -> None:
        self.insert(
            "token_usage", token_id=token, cost_micro_usd=micro_usd, created_at=at
        )

    def file(self, name: str, content: bytes, **values) -> str:
        """Add a file; returns its id."""
        key = str(uuid.uuid4())
        folder = self.directory / "files"
        folder.mkdir(exist_ok=True)
        (folder / key).write_bytes(content)
        row = {
            "id": f"file-{uuid.uuid4().hex}",
            "bytes": len(content),
            "content_type": "text/plain",
            "filename": name,
            "purpose": "assistants",
            "sha256": hashlib.sha256(content).hexdigest(),
            "storage_key": key,
            "user_id": "default",
        }
        return self.insert("storage_files", **row | values)

    def override(self, section: str, name: str, config: dict | None, **values) -> None:
        """Add an entry of the studio, or with None, a disabled one of the file."""
        row = {
            "name": name,
            "config_json": None if config is None else json.dumps(config),
            "disabled": config is None,
            "created_at": START,
            "updated_at": START,
        } | values
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        with self.open() as database:
            query = f"INSERT INTO dynamic_{section} ({names}) VALUES ({marks})"
            database.execute(query, list(row.values()))

    def score(self, user, message: str, score: float, **values) -> str:
        values = {
            "agent_name": "writer",
            "criterion": "tone",
            "judge_model": "m",
            "judge_name": "editor",
            "reasoning": "clear",
        } | values
        return self.insert(
            "scores", user_id=str(user), message_id=message, score=score, **values
        )
