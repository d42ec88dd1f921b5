"""What is measured of real servers, straight and through the household's queue."""
