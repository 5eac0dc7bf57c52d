"""All that knows torch's dispatcher, autograd and compiler; operations do without it."""
