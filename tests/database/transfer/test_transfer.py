"""`coulisse migrate-database` moves every row, and finds each difference."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from io import StringIO
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections, models
from django.db.migrations.recorder import MigrationRecorder

from coulisse_site import environment
from database.transfer import databases, rows
from database.transfer.databases import SOURCE, TARGET
from database.transfer.progress import TransferProgress
from judges.models import Score
from memory.models import Owner, StoredMessage
from memory.models.fields import TermsField
from memory.models.users import VIEW
from tests.database.transfer import sample_rows
from tests.database.transfer.conftest import move

pytestmark = pytest.mark.database


def read_all(model: type[models.Model], alias: str, names: list[str]) -> list[Any]:
    found = model._base_manager.using(alias).order_by("pk").values_list(*names)
    return [tuple(map(comparable, row)) for row in found]


def comparable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype, value.tolist()
    return bytes(value) if isinstance(value, memoryview) else value


def assert_moved(url: str) -> None:
    """Compare all rows, in a way that shares nothing with the command."""
    with databases.opened(environment.parse_database_url(url)):
        is_same_kind = connections[SOURCE].vendor == connections[TARGET].vendor
        for model in rows.list_models():
            names = [
                field.attname
                for field in model._meta.local_concrete_fields
                if is_same_kind or not isinstance(field, TermsField)
            ]
            before = read_all(model, SOURCE, names)
            assert before, f"{model} has no sample row"
            assert sorted(before, key=repr) == sorted(
                read_all(model, TARGET, names), key=repr
            ), model


def test_every_table_is_moved(source: str, new_url: Callable[[], str]) -> None:
    sample_rows.add_rows()
    url = new_url()

    output = move(url)

    assert "all equal" in output
    assert_moved(url)


def test_rows_move_back(
    source: str, new_url: Callable[[], str], default: Any, tmp_path: Any
) -> None:
    sample_rows.add_rows()
    first, url, back = new_url(), new_url(), f"sqlite:///{tmp_path / 'back.db'}"
    move(first)
    default(first)
    move(url)  # Of the same kind.
    default(url)

    output = move(back)

    assert "all equal" in output
    assert_moved(back)
    default(source)
    assert "all equal" in move(back, verify=True)


def test_every_table_has_a_model(source: str, new_url: Callable[[], str]) -> None:
    url = new_url()
    move(url)
    with databases.opened(environment.parse_database_url(url)):
        tables = set(connections[TARGET].introspection.table_names())
    known = {model._meta.db_table for model in rows.list_models()}
    known |= {VIEW, MigrationRecorder.Migration._meta.db_table}
    assert tables - known == set()


@pytest.mark.parametrize("batch", [1, 2])
def test_interrupted_move_continues(
    source: str,
    new_url: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    batch: int,
) -> None:
    """Each run ends after a transaction of its own, until none is left."""
    sample_rows.add_rows()
    url = new_url()
    monkeypatch.setattr(rows, "FIRST_BATCH", batch)
    monkeypatch.setattr(rows, "MAX_BATCH", batch)
    insert, budget = rows.insert, [0]

    def interrupted(model: type[models.Model], batch: list[Any]) -> None:
        if not budget[0]:
            raise KeyboardInterrupt
        budget[0] -= 1
        insert(model, batch)

    monkeypatch.setattr(rows, "insert", interrupted)
    runs, output = 0, ""
    while not output:
        budget[0], runs = 40, runs + 1
        with suppress(CommandError):
            output = move(url)

    assert runs > 5
    assert "all equal" in output
    assert_moved(url)
    with databases.opened(environment.parse_database_url(url)):
        assert not TransferProgress(TARGET).exists()


def test_differences_are_named(source: str, new_url: Callable[[], str]) -> None:
    keys = sample_rows.add_rows()
    url = new_url()
    move(url)
    message = keys[StoredMessage][1]
    with databases.named(TARGET, environment.parse_database_url(url)):
        StoredMessage.objects.filter(pk=message).update(text="altered")
        Score.objects.filter(pk=keys[Score][2]).delete()
        Owner.objects.create(user_id=uuid4(), created_at=datetime.now(UTC))

    output = StringIO()
    with pytest.raises(CommandError, match="these tables differ: ") as refused:
        call_command(
            "migrate-database", to=url, verify=True, stdout=output, stderr=StringIO()
        )

    for table in ("memory_message", "memory_owner", "judges_score"):
        assert table in str(refused.value)
    assert "memory_fact" not in str(refused.value)
    assert f"memory_message: 3 rows, 3 on the target; different: {message}\n" in (
        output.getvalue()
    )


def test_rows_changed_on_the_source_are_found(
    source: str, new_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = sample_rows.add_rows()
    insert = rows.insert

    def change(model: type[models.Model], batch: list[Any]) -> None:
        insert(model, batch)
        if model is StoredMessage:
            late = StoredMessage.objects.using(SOURCE).filter(pk=keys[model][0])
            late.update(tokens=7)

    monkeypatch.setattr(rows, "insert", change)
    url = new_url()

    with pytest.raises(CommandError, match="these tables differ: memory_message"):
        move(url)
    # It stays unfinished.
    with pytest.raises(CommandError, match="these tables differ: memory_message"):
        move(url)


def test_numbering_continues(source: str, new_url: Callable[[], str]) -> None:
    keys = sample_rows.add_rows()
    url = new_url()
    move(url)
    with databases.named(TARGET, environment.parse_database_url(url)):
        owner = Owner(user_id=uuid4(), created_at=datetime.now(UTC))
        owner.save()
    assert owner.pk > max(keys[Owner])
