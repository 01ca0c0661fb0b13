"""The search indexes: numpy arrays in the process on SQLite, pgvector and lexemes on
PostgreSQL.
"""
