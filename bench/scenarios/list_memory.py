"""The memory that lists take: `python -m bench list-memory -c PATH [ADDRESS …]`.

Each list of the studio is requested in this process as JSON, YAML and CSV, with the
largest page, and read to its end: `python -m bench bulk-rows` fills the database.
Prints by how much each raised the peak of the process's memory, and exits with 1 if
all together raised it by more than 50 MB.
"""

import argparse
import asyncio
import os
import resource
from typing import Any

MAX_MB = 50.0
FORMATS = ("application/json", "application/yaml", "text/csv")
DIMENSIONS = ("agent", "day", "model", "provider", "token", "user")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench list-memory", description=__doc__
    )
    parser.add_argument("addresses", nargs="*", help="default: all lists")
    parser.add_argument("-c", "--config", help="the YAML whose database is used")
    options = parser.parse_args(arguments)
    if options.config:
        os.environ["COULISSE_CONFIG"] = options.config
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
    import django

    django.setup()
    lists = options.addresses or list_addresses()
    for address in lists:  # Loads modules, and what stays cached.
        separator = "&" if "?" in address else "?"
        for media_type in FORMATS:
            read(f"{address}{separator}since=1h", media_type)
    before = peak = peak_mb()
    for address in lists:
        for media_type in FORMATS:
            status, size = read(address, media_type)
            grown, peak = peak_mb() - peak, peak_mb()
            print(f"{grown:+7.1f} MB  {size:12,}  {status}  {address}  {media_type}")
    print(f"peak of {before:.0f} MB grew by {peak - before:.1f} MB")
    if peak - before > MAX_MB:
        raise SystemExit(1)


def list_addresses() -> list[str]:
    """Return the lists of all tables, with the largest page, and those of spending."""
    from django.contrib import admin

    tables = [
        f"/admin/{each.path}?limit={each.max_limit}"
        for each in admin.site._registry.values()
        if hasattr(each, "max_limit") and getattr(each, "path", "")
    ]
    spending = [f"/admin/spend?by={by}&period=90d" for by in DIMENSIONS]
    return [*sorted(tables), *spending, "/admin/?"]


def read(address: str, media_type: str) -> tuple[int, int]:
    """Return the status of a list, and the size of its body."""
    from django.conf import settings

    from bench.scenarios import studio_addresses

    request = studio_addresses.factory.get(address, headers={"accept": media_type})
    request.META["HTTP_HOST"] = "localhost"
    request.urlconf = settings.COULISSE_STUDIO_URLCONF
    response = studio_addresses.handler.get_response(request)
    if not response.streaming:
        return response.status_code, len(response.content)
    return response.status_code, asyncio.run(_count(response))


async def _count(response: Any) -> int:
    size = 0
    async for chunk in response:
        size += len(chunk)
    return size


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
