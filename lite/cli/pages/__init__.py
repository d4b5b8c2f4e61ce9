"""Pages that commands write: `lite demo --plot`, `lite score --html`, `lite mismatch --html`."""
