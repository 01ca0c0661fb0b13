"""The studio's colors: a crimson accent and warm grays.

The README's picture and the logo (`static/studio/mark.svg`) use the same colors.
"""

ACCENT = {
    "50": "oklch(97.3% .014 350)",
    "100": "oklch(94.6% .030 350)",
    "200": "oklch(89.5% .062 350)",
    "300": "oklch(81.5% .112 350)",
    "400": "oklch(70.5% .170 351)",
    "500": "oklch(61.5% .200 352)",
    "600": "oklch(53.0% .195 353)",
    "700": "oklch(46.0% .172 354)",
    "800": "oklch(39.5% .144 355)",
    "900": "oklch(34.0% .115 356)",
    "950": "oklch(24.0% .085 357)",
}

BASE = {
    "50": "oklch(98.4% .003 340)",
    "100": "oklch(96.6% .004 340)",
    "200": "oklch(92.4% .006 335)",
    "300": "oklch(86.9% .009 332)",
    "400": "oklch(70.6% .018 328)",
    "500": "oklch(55.2% .022 326)",
    "600": "oklch(44.5% .024 324)",
    "700": "oklch(37.0% .025 322)",
    "800": "oklch(27.6% .024 320)",
    "900": "oklch(21.2% .022 318)",
    "950": "oklch(14.8% .018 316)",
}

LOGO = "/admin/static/studio/mark.svg"

UNFOLD = {
    "SITE_TITLE": "Coulisse",
    "SITE_HEADER": "Coulisse",
    "SITE_SUBHEADER": "studio",
    "SITE_URL": None,
    "SITE_ICON": LOGO,
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": LOGO}],
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "BORDER_RADIUS": "8px",
    "COLORS": {"base": BASE, "primary": ACCENT},
    "STYLES": [
        "/admin/static/studio/components.css",
        "/admin/static/studio/pages.css",
    ],
    "SCRIPTS": ["/admin/static/studio/studio.js"],
    "SIDEBAR": {"show_search": False, "navigation": "studio.base.navigation.sidebar"},
}
"""Settings of django-unfold, which reads them by this name."""
