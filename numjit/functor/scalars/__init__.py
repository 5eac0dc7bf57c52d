"""The scalars inside Python functors: typed with torch's promotion, compiled by Numba for GPU and CPU.

`types` holds the strong Numba types, `rules` the table of what can be done with them, `lowering` the
LLVM that is emitted, `registry` ties the table to Numba's two targets, and `compiler` turns a functor
into code. Importing any of them imports Numba (numba-cuda only when the GPU target is first used).
"""
