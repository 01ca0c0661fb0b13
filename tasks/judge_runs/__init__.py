"""Tasks in which judges score replies: sampling, backfill of past replies, results and
score reports.
"""
