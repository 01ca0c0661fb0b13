"""How replies are rated and experiments compared: feedback, scores, reports, and the
checks of their configuration.
"""
