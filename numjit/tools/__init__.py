"""What looks at operations from outside: inspection, reports, tuning, calls prepared ahead."""
