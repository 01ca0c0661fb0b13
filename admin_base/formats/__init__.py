"""The formats of the studio: HTML, JSON, YAML and CSV, and the choice between them."""
