-- Adds to a window what the ledger says was used in each of its slots before this epoch began. Once in each epoch.
--
-- KEYS  1 the epoch, 2 the bucket.
-- ARGV  1 {start of the epoch, length of the window, then pairs of a slot (counted from 1970, as the ring's) and what was used in it}.
--
-- Replies 1, or 0 if the window was rebuilt already, or the usage belongs to another epoch.
local epoch = redis.call('GET', KEYS[1])
local used = cmsgpack.unpack(ARGV[1])
local born, window = used[1], used[2]
if not epoch or tonumber(string.match(epoch, '^%d+')) ~= born then
  return 0
end
local ring = with_flights(ring_at(redis.call('GET', KEYS[2]), math.floor(now / (window / 16))))
if ring[2 * SLOTS + 3] == born then
  return 0
end
for index = 3, #used, 2 do
  local slot = math.min(used[index], ring[1])  -- the clock went back
  if slot > ring[1] - SLOTS then
    ring[slot % SLOTS + 2] = ring[slot % SLOTS + 2] + used[index + 1]
  end
end
ring[2 * SLOTS + 3] = born
redis.call('SET', KEYS[2], cmsgpack.pack(ring), 'PX', 2 * window + MORE)
return 1
