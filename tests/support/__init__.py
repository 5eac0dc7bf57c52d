"""What several test suites share: Hypothesis strategies and helpers that ask torch."""

import os
import shutil

#: A C++ compiler for what tests build themselves; None where there is none.
COMPILER = shutil.which(os.environ.get("CXX", "")) or shutil.which("g++") or shutil.which("clang++")
