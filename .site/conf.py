"""How Sphinx builds the pages that `.ci/site` has written: the theme, and what Markdown means."""

project = "lite"
html_title = "lite"
copyright = ""
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns: list[str] = []
highlight_language = "text"
suppress_warnings: list[str] = []
nitpicky = True

myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["rows.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "tango"
pygments_dark_style = "monokai"
