"""Mixtures of relevance levels that all ranks share.

The modules, in reading order: ``population`` (documents and their clicks), ``levels``
(parameters and likelihood), ``fit`` (the climb), ``search`` (how many levels),
``covariates`` (relevance predicted from features), ``precision`` (standard errors) and
``estimate`` (the whole method on one page).
"""
