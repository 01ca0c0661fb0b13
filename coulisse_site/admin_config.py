"""Django's admin, with the studio as its site."""

from django.contrib.admin.apps import SimpleAdminConfig


class StudioAdminConfig(SimpleAdminConfig):
    """Loads no `admin.py` itself: `studio_urls` does, where pages are served."""

    default_site = "studio.base.admin_site.StudioSite"
