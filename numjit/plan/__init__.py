"""Pure decisions about memory: coalescing, the choice of kernel, its launch numbers."""
