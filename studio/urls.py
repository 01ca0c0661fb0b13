"""Where the pages of the studio are."""

from django.urls import path

from studio import pages
from studio.door import URL_NAME

urlpatterns = [
    path("", pages.home, name=URL_NAME),
    path("<path:rest>", pages.missing),
]
