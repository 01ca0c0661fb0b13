"""Prices of models: the `prices:` section, the bundled price list and the cost of a
call.
"""
