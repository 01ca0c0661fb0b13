"""The studio's own description, for those who make clients of it."""

from django.conf import settings
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.views import SpectacularAPIView

from studio.faces import ByRole, Entered


class Description(SpectacularAPIView):
    """`/admin/openapi.json`: OpenAPI 3.1 of every address here."""

    authentication_classes = [Entered]
    permission_classes = [ByRole]
    renderer_classes = [OpenApiJsonRenderer, OpenApiYamlRenderer]
    urlconf = settings.COULISSE_STUDIO_URLCONF
    operator_only = False
