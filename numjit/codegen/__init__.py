"""LLVM emission that every target shares: stored elements, conversions, memory accesses."""
