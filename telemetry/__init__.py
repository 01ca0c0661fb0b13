"""The record of every turn, its statistics, and the log."""
