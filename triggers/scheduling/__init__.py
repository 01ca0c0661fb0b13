"""Schedules, server starts, and the scheduler of beat that runs them."""
