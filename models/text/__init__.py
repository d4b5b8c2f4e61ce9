"""Text: conversations, templates, tokens."""
