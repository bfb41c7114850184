"""What every other package may use: errors, numbers, files, lines of JSON, threads. It knows nothing of federations."""
