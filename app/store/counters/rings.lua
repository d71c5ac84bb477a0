-- A sliding window is a ring of its last 17 sixteenths. A window that ends now overlaps no other slots, so if the sum of all slots stays
-- within the amount, no window of that length holds more. Stored as {newest slot, one number for each slot modulo 17}.
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
    end
    ring[1] = slot
  end
  return ring
end

-- Kept for longer than it counts, as the clock may go back.
local function keep_ring(key, ring, window)
  redis.call('SET', key, cmsgpack.pack(ring), 'PX', 2 * window + 60000)
end

local DAY = 86400000
