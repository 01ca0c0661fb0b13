"""The search indexes: arrays in the process on SQLite, pgvector and lexemes on
PostgreSQL."""
