"""Group terms: effects of the levels of a column, (1 | bank), with a standard deviation of their own."""
