"""Python functors written over torch tensors, so that torch's compiler can look into them."""
