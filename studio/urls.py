"""Where the pages of the studio are."""

from django.urls import path

from studio.door import URL_NAME
from studio.home import Home
from studio.missing import Missing
from studio.site import site

urlpatterns = [
    path("", Home.as_view(), name=URL_NAME),
]
"""One line an address, in the order of the menu; each module has its faces."""

urlpatterns += [
    path("tables/", site.urls),
    path("<path:rest>", Missing.as_view()),
]
