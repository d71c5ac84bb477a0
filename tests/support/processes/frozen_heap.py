"""Makes the garbage collector skip everything imported so far: forked children then neither visit it nor copy its pages."""

import gc

gc.collect()
gc.freeze()
