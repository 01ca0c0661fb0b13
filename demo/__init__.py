"""A month of invented traffic, for pictures and for load: `manage.py demo`."""
