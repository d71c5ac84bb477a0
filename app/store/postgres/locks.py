"""Advisory locks that several processes take."""

ERASED = "(erased)"  # in place of end users and values of tags, so that sums by them stay complete


# Writers hold it (shared) while they store a batch. Whoever got it alone knows that no older batch is on its way, and that every later
# one is checked against all orders that were committed before.
WRITERS_LOCK = 0x6E617274_65726173
