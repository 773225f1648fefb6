"""Data: any input becomes a checked frame, and a formula turns it into a design; data sets to try things with."""
