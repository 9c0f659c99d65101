"""How results are shown: in a terminal, in a notebook, on a page, in a chart."""
