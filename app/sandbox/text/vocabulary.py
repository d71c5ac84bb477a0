"""The words of generated text. Some are not ASCII, to test clients that count bytes."""

GARDEN = ("bamboo", "birch", "bramble", "cedar", "fennel", "fern", "hazel", "jasmine", "juniper", "linden", "lotus", "maple", "mint", "oak")
HARBOUR = (
    "anchor",
    "beacon",
    "compass",
    "coral",
    "delta",
    "drift",
    "fjord",
    "harbour",
    "island",
    "lagoon",
    "otter",
    "reed",
    "river",
    "tide",
)
HOUSE = ("basket", "candle", "canvas", "kettle", "lantern", "lattice", "linen", "marble", "parcel", "quill", "thimble", "velvet", "window")
SKY = (
    "autumn",
    "cosmos",
    "dapple",
    "ember",
    "falcon",
    "heron",
    "nimbus",
    "raven",
    "ripple",
    "sparrow",
    "summit",
    "winter",
    "wren",
    "zephyr",
)
ABROAD = ("café", "façade", "naïve", "über", "λόγος", "日本")
WORDS = GARDEN + HARBOUR + HOUSE + SKY + ABROAD

SUBJECTS = (
    "A lantern",
    "The harbour",
    "A quiet heron",
    "The old atlas",
    "A copper kettle",
    "The north wind",
    "A patient otter",
    "The café",
)
VERBS = ("keeps", "borrows", "measures", "remembers", "repaints", "counts", "follows", "mends")
OBJECTS = (
    "the tide",
    "a handful of pebbles",
    "every window",
    "the longest bridge",
    "its own echo",
    "seven small bells",
    "the map",
    "a door",
)
ENDINGS = ("before noon", "without a sound", "for the third time", "as if by habit", "in good order", "until it rains", "quite exactly")
