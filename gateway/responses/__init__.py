"""Parts of responses that all endpoints share: headers, HTML pages, pagination,
validation errors.
"""
