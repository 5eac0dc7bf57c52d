"""Everything that talks to the CUDA driver: devices, loaded kernels, launches, order between streams."""
