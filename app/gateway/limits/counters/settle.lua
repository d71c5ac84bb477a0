-- Replaces what a reservation took with what was spent, and ends the reservation. A second call changes nothing.
--
-- KEYS  1 the reservation, then all its buckets, in the order in which they were reserved.
-- ARGV  1 what was spent of each resource. 0 requests (the first) cancel the reservation: it gives everything back. A reservation that
--         is not known stays cancelled for a while, in case the command that takes it is still on the way.
--
-- Replies 1, or 0 if there was no such reservation.
local held = redis.call('GET', KEYS[1])
local spent = cmsgpack.unpack(ARGV[1])
local cancelled = spent[1] == 0
if not held or held == 'x' then
  if cancelled then
    redis.call('SET', KEYS[1], 'x', 'PX', 60000)
  end
  return 0
end
redis.call('DEL', KEYS[1])
local reservation, member = cmsgpack.unpack(held), string.sub(KEYS[1], 6)
for at = 2, #reservation, 7 do
  local key, kind, resource, place = KEYS[reservation[at] + 1], reservation[at + 1], reservation[at + 2], reservation[at + 4]
  local x, y = reservation[at + 5], reservation[at + 6]
  local more = spent[resource] - reservation[at + 3]
  if kind == 3 then
    if redis.call('ZREM', key, member) == 1 and not cancelled then
      local last, lasted = redis.call('ZSCORE', key, '~'), math.max(1, now - reservation[1])
      redis.call('ZADD', key, -(last and 0.9 * -tonumber(last) + 0.1 * lasted or lasted), '~')
      redis.call('PEXPIRE', key, DAY)
    end
  elseif kind == 1 and (more ~= 0 or resource > 1) then
    local ring = ring_at(redis.call('GET', key), math.floor(now / (x / 16)))
    local slot, place_in_ring = ring[1], place % SLOTS + 2
    local is_in_ring = place > slot - SLOTS and place <= slot
    if more > 0 then
      ring[slot % SLOTS + 2] = ring[slot % SLOTS + 2] + more
    elseif is_in_ring then
      ring[place_in_ring] = math.max(0, ring[place_in_ring] + more)
    end
    if resource > 1 then
      with_flights(ring)
      if is_in_ring then
        ring[place_in_ring + SLOTS] = math.max(0, ring[place_in_ring + SLOTS] - reservation[at + 3])
      end
      if not cancelled then
        ring[2 * SLOTS + 2] = average(ring[2 * SLOTS + 2], math.max(1, now - reservation[1]))
      end
    end
    keep_ring(key, ring, x)
  elseif kind == 2 and (more ~= 0 or resource > 1) then
    -- x: the end of the period in which it was taken, y: the end of the next.
    local raw = redis.call('GET', key)
    local bucket = raw and cmsgpack.unpack(raw)
    local finish = x
    if now >= x and (not bucket or bucket[1] < x) then
      bucket, finish = {x, 0, 1}, y
    elseif bucket and bucket[1] > place then
      finish = y
    end
    if bucket and (more > 0 or bucket[1] == place) and finish > now then
      bucket[2] = math.max(0, bucket[2] + more)
      if resource > 1 and bucket[1] == place then
        with_quarters(bucket)
        local ago = bucket[6] - math.floor(reservation[1] / QUARTER)
        if ago == 0 or ago == 1 then
          bucket[4 + ago] = math.max(0, bucket[4 + ago] - reservation[at + 3])
        end
        if not cancelled then
          bucket[7] = average(bucket[7], math.max(1, now - reservation[1]))
        end
      end
      redis.call('SET', key, cmsgpack.pack(bucket), 'PX', finish - now + DAY)
    end
  end
end
return 1
