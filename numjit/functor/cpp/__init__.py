"""CUDA C++ functors: the reader of their text, and the programs that are written around it."""
