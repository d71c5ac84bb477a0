-- Replaces what a reservation took with what was spent, and ends the reservation. A second call changes nothing.
--
-- The buckets of its row are all those of the reservation, in the order in which they were reserved. 0 requests (the first that was
-- spent) cancel the reservation: it gives everything back. A reservation that is not known stays cancelled for a while, in case the
-- operation that takes it is still on the way. Where another server may take over, one that is settled stays known as such for a while:
-- it may be reported again to a server that lacks the last moment.
--
-- Replies 1, or 0 if there was no such reservation.

-- A moving average of how long requests take.
local function average(mean, lasted)
  return mean > 0 and math.ceil(0.9 * mean + 0.1 * lasted) or lasted
end

local function settle(spent, reservation_key, reservation, places)
  local cancelled = spent[4] == 0
  if not reservation or reservation == 'x' then
    if cancelled then
      reservations[reservation_key] = 'x'
    end
    return 0
  end
  if type(reservation) == 'string' then
    reservation = cmsgpack.unpack(reservation)
  end
  reservations[reservation_key] = KEEPS_SETTLED and not cancelled and 'x'
  local lasted = not cancelled and math.max(1, now - reservation[1])
  local at = 2
  while reservation[at] do
    local code, need, place = reservation[at], reservation[at + 1], reservation[at + 2]
    local kind, resource = code % 4, math.floor(code / 4) % 8
    local bucket = math.floor(code / 32)
    bucket = places and places[bucket] or bucket
    at = at + (kind == 1 and 4 or kind == 2 and 5 or 1)
    local more = kind < 3 and spent[resource + 3] - need
    if kind == 3 then
      local state = leases[bucket] or read_leases(bucket)
      if redis.call('ZREM', KEYS[bucket + 1], string.sub(reservation_key, ID_START)) == 1 then
        state[1] = state[1] and now < reservation[1] + lease and state[1] - 1  -- else it may have ended, and not have counted
        if lasted then
          local mean = mean_of(state, bucket)
          state[3] = average(mean or 0, lasted)
        end
      end
    elseif kind == 1 and (more ~= 0 or resource > 1) then
      local window = reservation[at - 1]
      local ring = values[bucket] or read_ring(bucket, window / 16)
      local slot, place_in_ring = ring[1], place % SLOTS + 2
      local is_in_ring = place > slot - SLOTS and place <= slot
      if more > 0 then
        ring[slot % SLOTS + 2] = ring[slot % SLOTS + 2] + more
        sums[bucket] = sums[bucket] + more
      elseif is_in_ring then
        local before = ring[place_in_ring]
        ring[place_in_ring] = math.max(0, before + more)
        sums[bucket] = sums[bucket] + ring[place_in_ring] - before
      end
      if resource > 1 then
        with_flights(ring)
        if is_in_ring then
          ring[place_in_ring + SLOTS] = math.max(0, ring[place_in_ring + SLOTS] - need)
        end
        if lasted then
          ring[2 * SLOTS + 2] = average(ring[2 * SLOTS + 2], lasted)
        end
      end
      kept_ms[bucket] = 2 * window + MORE
    elseif kind == 2 and (more ~= 0 or resource > 1) then
      local taken_finish, next_finish = reservation[at - 2], reservation[at - 1]  -- of the period in which it was taken, and of the next
      local calendar = values[bucket] or read_calendar(bucket)
      local finish, is_new = taken_finish, false
      if now >= finish and (not calendar or calendar[1] < finish) then
        calendar, finish, is_new = {finish, 0, 1}, next_finish, true
      elseif calendar and calendar[1] > place then
        finish = next_finish
      end
      if calendar and (more > 0 or calendar[1] == place) and finish > now then
        calendar[2] = math.max(0, calendar[2] + more)
        if resource > 1 and calendar[1] == place then
          with_quarters(calendar)
          local ago = calendar[6] - math.floor(reservation[1] / QUARTER)
          if ago == 0 or ago == 1 then
            calendar[4 + ago] = math.max(0, calendar[4 + ago] - need)
          end
          if lasted then
            calendar[7] = average(calendar[7], lasted)
          end
        end
        values[bucket], kept_ms[bucket], renewed[bucket] = calendar, finish - now + DAY, renewed[bucket] or is_new
      end
    end
  end
  return 1
end
