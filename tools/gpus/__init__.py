"""What NVIDIA's datasheets say of a GPU, as data, and which row a GPU of a capture is."""
