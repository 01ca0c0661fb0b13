"""File parts of messages: references to files, and what models receive of them.

A part by id stays one in the transcript. Each turn reads its content again.
"""
