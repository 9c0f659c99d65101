"""Limits on what is read from files: beyond them a file is refused, in one sentence.

They are far above what real data have; ``docs/limits.md`` lists them.
"""

from __future__ import annotations

TEXT_BYTES = 64 * 2**20  # of a JSON or TOML file
TEXT_DEPTH = 64  # lists and tables within each other, in JSON and TOML
TEXT_DIGITS = 300  # of one number in JSON and TOML: each fits a float
PLAN_BYTES = 2**20  # of a plan, in TOML
KEY_PARTS = 16  # of a dotted key in TOML
LINE_BYTES = 16 * 2**20  # of one line of a text file
ID_BYTES = 65_536  # of one id: a query, a document, a session
LOG_LAYOUTS = 100  # sets of columns that the files of one log may have
MAX_RANK = 10_000
MOST_VALUE = 1e12  # of one click
MAX_COUNT = 2**53  # impressions, clicks or sessions of one row: exact as a float
DOCUMENTS_PER_QUERY = 1_000_000
FEATURES = 100_000
CATEGORY_VALUES = 1_000  # of one column of text; beyond, it is free text
CATEGORY_LENGTH = 200  # characters of one value
MIN_ALPHA = 1e-6  # what a click is divided by, at least
PLAN_RUNS = 10_000
PLAN_CELLS = 1_000_000
MODEL_BYTES = 2**31  # of the text of trees, or of the weights of a network
MODEL_TREES = 100_000
MODEL_BINS = 65_535  # of one feature, where trees are trained
MODEL_LEAVES = 131_072  # of one tree: LightGBM's own limit
MODEL_DEPTH = 500  # of one tree
THREADS = 1024
EPOCHS = 1_000_000
