"""A capture in any of its forms becomes one canonical columnar profile in the shared cache."""
