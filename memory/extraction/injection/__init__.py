"""Defence against prompt injection through facts: patterns of instructions, and texts
hidden from them.
"""
