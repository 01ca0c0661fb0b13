"""Quality and latency of memory: data sets, retrieval quality, deduplication, recall
latency.
"""
