"""Crons and server starts, and the scheduler in each worker that runs them."""
