"""Reads the YAML file into a valid configuration, with the studio's overrides."""
