"""The default format of dates and times in the studio's tables."""
