"""Moving all rows to another database: `coulisse migrate-database`.

While both are open, the target is Django's default database, so migrations and whatever
else uses `connection` work on it; the source is `databases.SOURCE`.
"""
