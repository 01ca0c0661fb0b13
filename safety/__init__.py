"""Safety checks of what users write and agents reply, and the log of incidents.

`config.py` is the YAML, `detection/` finds what a check looks for, `turn_safety.py` has
the results of one turn, and `models.py` the incidents. `turns/safety/` runs the checks.
"""
