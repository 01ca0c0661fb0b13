"""Extraction of facts from finished turns by a model: the job queue, the worker, the
prompt, and the parser.
"""
