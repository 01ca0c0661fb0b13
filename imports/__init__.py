"""Move data in from other systems: `coulisse import SOURCE`.

Each source is a module or package of this app with `HELP`, `add_arguments(parser)` and
`run(options, report)`; `sources.py` registers it. It writes with ids derived from those
of the other system (`deterministic_id`), so that a second run finds what the first
wrote, and in `batch(report)`, which a dry run rolls back.
"""
