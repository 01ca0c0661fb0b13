"""How well and how fast memory finds what it holds: data sets, retrieval quality,
deduplication, recall latency.
"""
