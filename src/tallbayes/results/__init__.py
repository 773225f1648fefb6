"""Results: what a fit says, and how it is shown."""
