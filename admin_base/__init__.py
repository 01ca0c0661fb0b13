"""The base of the studio's pages, which each serve HTML, JSON, YAML and CSV.

`StudioModelAdmin` makes one of a table, `PageView` one of anything else. This package
knows no app: it reaches the audit by a dotted name in the settings.
"""
