"""Many machines behind the same door: workers hold runs of whole blocks, and a driver asks them."""
