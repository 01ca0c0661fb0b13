"""The base of every page: the view class, the admin site and its menu, formats and
their negotiation, pagination, error responses.
"""
