"""Trees: trained by LightGBM, read node by node."""
