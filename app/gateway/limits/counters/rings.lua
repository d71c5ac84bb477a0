-- A sliding window is a ring of its last 17 sixteenths. A window that ends now overlaps no other slots, so if the sum of all slots stays
-- within the amount, no window of that length holds more. Stored as {newest slot, one number for each slot modulo 17}; rings of tokens and
-- cost go on with as many numbers, how much of each slot is held by requests in flight, and how long requests take (ms; 0: not known).
-- A ring that was rebuilt after a loss of memory ends with the start of the epoch in which it was.
-- Names in capitals are constants of scripts.py.

-- The ring as it is at `slot`, and whether it was older. If the clock goes back, the newest slot stays the newest.
local function ring_at(raw, slot)
  local ring = raw and cmsgpack.unpack(raw)
  if not ring then
    ring = {slot, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
    return ring, true
  end
  local newest = ring[1]
  if slot > newest then
    local first = slot - newest >= SLOTS and slot - SLOTS + 1 or newest + 1
    for passed = first, slot do
      ring[passed % SLOTS + 2] = 0
      if ring[SLOTS + 2] then
        ring[passed % SLOTS + 2 + SLOTS] = 0
      end
    end
    ring[1] = slot
  end
  return ring, slot > newest
end

-- The ring with its numbers of requests in flight.
local function with_flights(ring)
  if not ring[SLOTS + 2] then
    for place = SLOTS + 2, 2 * SLOTS + 2 do
      ring[place] = 0
    end
  end
  return ring
end

-- Calendar buckets are {start of the period, sum, 1 if it is seeded}; those of tokens and cost go on with how much is held by requests in
-- flight that began in this quarter of an hour, how much by those of the one before, the number of this one, and how long requests take.
-- Of a process that was killed nothing stays in flight for longer.
local function with_quarters(bucket)
  local quarter = math.floor(now / QUARTER)
  if not bucket[7] then
    bucket[4], bucket[5], bucket[6], bucket[7] = 0, 0, quarter, 0
  elseif bucket[6] ~= quarter then
    bucket[4], bucket[5], bucket[6] = 0, bucket[6] == quarter - 1 and bucket[4] or 0, quarter
  end
  return bucket
end
