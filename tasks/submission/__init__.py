"""How users, agents and operators submit tasks: validation, idempotency, limits and
manual retries.
"""
