"""The studio's own OpenAPI document and the schemas of the configuration file in it."""
