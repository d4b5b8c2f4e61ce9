"""The small chat model that ships with the package."""
