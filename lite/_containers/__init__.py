"""Two ways to hold entries: dense and lazily stacked."""
