-- A sliding window is a ring of its last 17 sixteenths. A window that ends now overlaps no other slots, so if the sum of all slots stays
-- within the amount, no window of that length holds more. Stored as {newest slot, one number for each slot modulo 17}; rings of tokens and
-- cost go on with as many numbers, how much of each slot is held by requests in flight, and how long requests take (ms; 0: not known).
-- A ring that was rebuilt after a loss of memory ends with the start of the epoch in which it was.
local SLOTS = 17

-- The ring as it is at `slot`. If the clock goes back, the newest slot stays the newest.
local function ring_at(raw, slot)
  local ring = raw and cmsgpack.unpack(raw)
  if not ring then
    ring = {slot, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
    return ring
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
  return ring
end

-- Kept for longer than it counts, as the clock may go back.
local function keep_ring(key, ring, window)
  redis.call('SET', key, cmsgpack.pack(ring), 'PX', 2 * window + 60000)
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

-- How long until `over` more is free, in ms; `settled`: if all that is in flight were to come back.
local function free_in(ring, over, width, settled)
  local slot = ring[1]
  if settled then
    for place = SLOTS + 2, 2 * SLOTS + 1 do
      over = over - ring[place]
    end
  end
  if over <= 0 then
    return 0
  end
  local oldest = slot - SLOTS + 1
  while over > 0 and oldest <= slot do
    local place = oldest % SLOTS + 2
    over = over - ring[place] + (settled and ring[place + SLOTS] or 0)
    oldest = oldest + 1
  end
  return math.ceil((oldest + SLOTS - 1) * width) - now
end

-- Calendar buckets are {start of the period, sum, 1 if it is seeded}; those of tokens and cost go on with how much is held by requests in
-- flight that began in this quarter of an hour, how much by those of the one before, the number of this one, and how long requests take.
-- Of a process that was killed nothing stays in flight for longer.
local QUARTER = 900000
local function with_quarters(bucket)
  local quarter = math.floor(now / QUARTER)
  if not bucket[7] then
    bucket[4], bucket[5], bucket[6], bucket[7] = 0, 0, quarter, 0
  elseif bucket[6] ~= quarter then
    bucket[4], bucket[5], bucket[6] = 0, bucket[6] == quarter - 1 and bucket[4] or 0, quarter
  end
  return bucket
end

-- A moving average of how long requests take.
local function average(mean, lasted)
  return mean > 0 and math.ceil(0.9 * mean + 0.1 * lasted) or lasted
end

local DAY = 86400000

-- After a loss of memory: the rules whose windows were rebuilt in an epoch are the fields of a hash, which expires after the last window.
-- A bucket's key names its rule: nx:l:RULE:SUBJECT.
local REBUILDING = 2000  -- how long that takes, roughly
local function is_rebuilt(key, born)
  local rule = string.match(key, '^nx:l:([^:]+)')
  return rule and redis.call('HEXISTS', 'nx:rebuilt:' .. string.format('%.0f', born), rule) == 1
end
