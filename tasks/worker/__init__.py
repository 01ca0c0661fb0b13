"""What runs in a worker process: the runner that claims tasks, its service and its
retry policy.
"""
