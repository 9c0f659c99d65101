"""How users click, estimated from clicks: every method is a row of one table."""

from affinerank.bias.listwise import ROW as _LISTWISE
from affinerank.bias.method import Estimate, EstimationSettings, Method
from affinerank.bias.mixture.method import ROWS as _MIXTURES
from affinerank.bias.regression_em.method import ROWS as _EM
from affinerank.support.registry import Registry

METHODS: Registry[Method] = Registry("method", *_MIXTURES, _LISTWISE, *_EM)

__all__ = ["METHODS", "Estimate", "EstimationSettings", "Method"]
