"""Django configuration of the files app."""

from django.apps import AppConfig
from django.db.models.signals import post_delete


class FilesApp(AppConfig):
    name = "files"

    def ready(self) -> None:
        from files import file_store
        from files.models import File

        post_delete.connect(file_store.on_file_deleted, sender=File)
