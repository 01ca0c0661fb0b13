"""Crons and server starts, and the clock of each worker that fires them."""
