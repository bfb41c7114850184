"""A deal between organisations, on Flower."""
