"""The worker: runs one row of the queue per Celery execution, within limits."""
