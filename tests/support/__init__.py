"""What several test suites share: Hypothesis strategies and helpers that ask torch."""
