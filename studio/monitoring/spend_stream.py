"""The stream of a spend export."""

from collections.abc import AsyncGenerator
from typing import Any

from database import database_executor
from studio.monitoring import spend_export


async def stream(export: Any, *, as_csv: bool) -> AsyncGenerator[bytes]:
    """Yield the text of a `SpendExport` and of its further pages."""
    while export is not None:
        chunk, export = await database_executor.run(
            spend_export.write_chunk, export, as_csv
        )
        yield chunk
