"""The values of a program's expressions, and the devices they live on."""
