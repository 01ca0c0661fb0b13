"""Import the configuration of LiteLLM's proxy: a new coulisse.yaml, and its keys."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any, get_args

from access.models import ApiToken
from access.users.caller import ClientUsers
from imports.errors import SourceUnreadable
from imports.litellm import keys, new_file
from imports.litellm.agents import FileBuilder
from imports.litellm.deployments import DeploymentReader
from imports.litellm.keys import KeyImporter
from imports.litellm.settings import Settings
from imports.litellm.source import Environment, Source
from imports.report import Report

HELP = "The config.yaml of LiteLLM's proxy, as a new coulisse.yaml, and its keys."


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="CONFIG", type=Path)
    parser.add_argument(
        "--output",
        metavar="PATH",
        type=Path,
        help="The file to write (default: that of -c).",
    )
    parser.add_argument(
        "--force", action="store_true", help="Overwrite an existing file."
    )
    parser.add_argument(
        "--keys",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="The answer of LiteLLM's /key/list?return_full_object=true: its keys "
        "become API tokens. Repeatable, for several pages.",
    )
    parser.add_argument(
        "--client-users",
        choices=get_args(ClientUsers),
        default="ignore",
        help="What these tokens do with other users that requests name (default: "
        "ignore), as for `token create`.",
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        action="append",
        default=[],
        help="A model that a pattern such as openai/* covers, to make an agent of; "
        "repeatable.",
    )


def run(options: dict[str, Any], report: Report) -> None:
    source, environment = Source(options["source"]), Environment()
    given_keys = keys.read_keys(options["keys"], report)
    settings = Settings(source, environment, report)
    reader = DeploymentReader(source, environment, report)
    wanted = {*options["model"], *settings.named_models()}
    wanted |= keys.named_models(given_keys)
    builder = FileBuilder(settings.provider_defaults(), settings.balance(), report)
    groups: dict[str, list[Any]] = {}
    for deployment in reader.read(wanted):
        groups.setdefault(deployment.name, []).append(deployment)
    if not groups:
        raise SourceUnreadable(
            f"no model of {options['source'].name} can become an agent: "
            + "; ".join(each.reason for each in report.skipped)
        )
    for name, deployments in groups.items():
        builder.add_group(name, deployments)
    settings.add_to(builder)
    importer = KeyImporter(builder.agents, options["client_users"], report)
    importer.add(given_keys)
    builder.limits += importer.limits
    data = settings.file_data(builder, requires_tokens=bool(given_keys))
    settings.report_rest()
    output = options["output"] or options["config"]
    if given_keys:
        # Without a database they cannot be stored: then there is no file, either.
        ApiToken.objects.exists()
    is_new = new_file.write(data, environment, options, output, report)
    count = sum(map(len, groups.values()))
    report.count("models", **{"written" if is_new else "existing": count})
    if given_keys:
        importer.store()
