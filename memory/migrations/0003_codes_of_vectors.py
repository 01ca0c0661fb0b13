from django.db import migrations

COLUMN = """
    ALTER TABLE memory_passage ADD COLUMN code varbit
    GENERATED ALWAYS AS (binary_quantize(vector)) STORED
"""
INDEXES = {
    "memory_passage_fact_codes": "(user_id, id) INCLUDE (embedder, code) "
    "WHERE fact_id IS NOT NULL",
    "memory_passage_message_codes": "(user_id, id) "
    "INCLUDE (embedder, code, thread_id, position) WHERE message_id IS NOT NULL",
}


def add_codes(apps, schema_editor):
    """A bit for each number of a vector, in an index that is read without the table:

    a user's vectors are scattered over it, and as many pages as rows would be read.
    """
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(COLUMN)
        for name, what in INDEXES.items():
            schema_editor.execute(f"CREATE INDEX {name} ON memory_passage {what}")


def drop_codes(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for name in INDEXES:
            schema_editor.execute(f"DROP INDEX {name}")
        schema_editor.execute("ALTER TABLE memory_passage DROP COLUMN code")


class Migration(migrations.Migration):
    dependencies = [("memory", "0002_facts_and_passages")]

    operations = [migrations.RunPython(add_codes, drop_codes)]
