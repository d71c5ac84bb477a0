-- Takes what a request needs from all its buckets, or from none.
--
-- rules  seven numbers for each bucket: its resource * 4 + its kind; its amount; flags (1: a dry run, 2: counts as full after a loss,
--        until it has passed, 4: another amount is in force for a time); the latest start of an epoch at which it lost nothing (it is
--        newer, or starts empty); then of a window (kind 1) its length, of a calendar (2) the starts of this period, the next and the
--        one after, of leases (3) nothing. Where a bucket has flag 4, two more for each: the other amount, and until when it is in force
-- places which of the batch's buckets they are; false: all, in their order
-- count  how many they are
-- Modes  0 take or refuse; 1 take in any case, once for each reservation; 2 preview; + 4: although a calendar bucket is unseeded.
--
-- Replies (times in ms; future times are counted from now):
--   0 taken       {0, now, start of the epoch, then of each bucket: left (below 0: a dry run would have refused), until all of it is free}
--   1 refused     {1, now, start of the epoch, index of the bucket with the longest wait or -1, then of each: left, until free,
--                  wait (-1: never), and of that wait: 1 if it is an estimate (what requests in flight hold may come back sooner than
--                  it passes, or the window may be rebuilt sooner), + 2 if it is due to a loss of memory}
--   2 forgotten   {2, now}: there is no epoch, so everything counted is lost
--   3 unseeded    {3, now, start of the epoch, indexes of calendar buckets whose period began before the epoch}
--   4 wrong time  {4, now}: the periods are not those of this server's clock
--   5 no          {5, now}: the reservation was cancelled, or exists

-- How long until `over` more is free in a window, in ms; `settled`: if all that is in flight were to come back.
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

-- After a loss of memory, the rules whose windows were rebuilt in an epoch are the fields of a hash, which expires after the last window.
-- A bucket's key names its rule: nx:l:RULE:SUBJECT. The hash is in the slot of the epoch, nx:epoch, as all keys of limits are.
local function is_rebuilt(bucket)
  local rule = string.match(KEYS[bucket + 1], 'nx:l:([^:]+)')
  return rule and redis.call('HEXISTS', string.sub(KEYS[1], 1, -6) .. 'rebuilt:' .. string.format('%.0f', born), rule) == 1
end

-- Until all of a window is free.
local function free_ring_in(ring, width)
  local slot = ring[1]
  for newest = slot, slot - SLOTS + 1, -1 do
    if ring[newest % SLOTS + 2] > 0 then
      return math.ceil((newest + SLOTS) * width) - now
    end
  end
  return 0
end

local function take(ask, reservation_key, held, rules, places, count)
  born = born or found[1] and tonumber(string.match(found[1], '^%d+'))
  if not born then
    return {2, now}
  end
  local mode, lax, base = ask[2] % 4, ask[2] >= 4, ask[3]
  if held and mode == 1 then
    for index = 1, count do
      if rules[index * 7 - 6] % 4 == 3 and held ~= 'x' then
        local bucket = places and places[index] or index
        local state = leases[bucket] or read_leases(bucket)
        redis.call('ZADD', KEYS[bucket + 1], now + lease, string.sub(reservation_key, ID_START))
        state[1], state[2] = false, state[2] + 1
      end
    end
    return {0, now, born}
  end
  if held and mode == 0 and (base == 0 or held == 'x') then
    return {5, now}
  end

  -- What is left and until when all is free of each bucket; false: that is not computed yet. The nils make room for five buckets.
  local told = {0, now, born, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}
  local waits, estimates, calendars  -- where there are any
  local worst, longest, unseeded = -1, 0, nil
  for index = 1, count do
    local at, bucket = index * 7 - 7, places and places[index] or index
    local code, amount, flags = rules[at + 1], rules[at + 2], rules[at + 3]
    local kind = code % 4
    local need = ask[(code - kind) / 4 + 3]
    local left, reset, wait, estimate = 0, 0, 0, 0
    local overridden, usual = 0, amount
    if flags >= 4 then
      flags = flags - 4
      overridden = rules[count * 7 + index * 2] - now
      if overridden > 0 then
        amount = rules[count * 7 + index * 2 - 1]
      end
    end
    local has_lost = born > rules[at + 4]
    if kind == 1 then
      local window = rules[at + 5]
      local width = window / 16
      local ring = values[bucket] or read_ring(bucket, width)
      left, reset = amount - sums[bucket], false
      if need > amount then
        wait = -1
      elseif need > left and need > 0 then
        wait = free_in(ring, need - left, width, false)
        local sooner = ring[SLOTS + 2] and free_in(ring, need - left, width, true) or wait
        if sooner < wait then
          local mean = ring[2 * SLOTS + 2]
          wait, estimate = math.min(wait, math.max(sooner, mean > 0 and mean or 1000)), 1
        end
      end
      if has_lost and now <= born + window and (flags >= 2 or not is_rebuilt(bucket)) then
        -- What was admitted before the memory was lost is not known, so the window counts as full.
        -- It is rebuilt once all workers have had time to take again what is in flight.
        local passed, rebuilt = born + window + 1 - now, math.max(born + lease + 1 - now, 0) + REBUILDING
        left, reset = 0, math.max(free_ring_in(ring, width), passed)
        if need > 0 and wait >= 0 then
          if flags >= 2 or passed <= rebuilt then
            wait, estimate = math.max(wait, passed), 2
          else
            wait, estimate = math.max(wait, rebuilt), 3
          end
        end
      end
    elseif kind == 2 then
      local start, finish = rules[at + 5], rules[at + 6]
      if now < start or now >= rules[at + 7] then
        return {4, now}
      end
      if now >= finish then
        start, finish = finish, rules[at + 7]
      end
      local calendar = values[bucket] or read_calendar(bucket)
      if not calendar or calendar[1] < start then
        calendar = {start, 0, (start >= born or not has_lost) and 1 or 0}
        calendars = calendars or {}
        calendars[index] = calendar
      elseif calendar[1] > start then  -- the clock went back
        start, finish = calendar[1], rules[at + 7]
      end
      has_lost = has_lost and start < born
      -- Requests in flight when the memory was lost are in no ledger: their workers take them again within the length of a lease.
      local recovering = has_lost and now <= born + lease
      if has_lost and calendar[3] ~= 1 and mode ~= 1 and not lax and not recovering and flags < 2 then
        unseeded = unseeded or {3, now, born}
        unseeded[#unseeded + 1] = index - 1
      end
      left, reset = amount - calendar[2], calendar[2] > 0 and finish - now or 0
      if need > amount then
        wait = -1
      elseif has_lost and flags >= 2 and need > 0 then
        wait, estimate = finish - now, 2
      elseif need > left and need > 0 then
        wait = finish - now
        if calendar[7] and need <= left + calendar[4] + calendar[5] then
          wait, estimate = math.min(wait, calendar[7] > 0 and calendar[7] or 1000), 1
        end
      elseif recovering and need > 0 then
        wait, estimate = born + lease + 1 - now, 3
      end
      if recovering then
        left = 0
      elseif has_lost and flags >= 2 then
        left, reset = 0, finish - now
      end
    else
      local state = leases[bucket] or read_leases(bucket)
      local taken = state[1]
      if not taken then
        taken = redis.call('ZCOUNT', KEYS[bucket + 1], now + 1, '+inf')
        state[1] = taken
      end
      left = amount - taken
      if need > amount then
        wait = -1
      elseif need > left or (has_lost and now <= born + lease) then
        -- An estimate: with leases held for `mean` ms, one of `taken` ends after mean / taken.
        wait, estimate = math.max(1, math.ceil((mean_of(state, bucket) or 1000) / math.max(1, taken))), 1
        if has_lost and now <= born + lease then
          left, wait, estimate = 0, math.max(wait, born + lease + 1 - now), 3
        end
      end
    end
    told[index * 2 + 2], told[index * 2 + 3] = left, reset
    if wait ~= 0 then
      if overridden > 0 then
        -- When the usual amount is in force again, it may pass sooner, or not even after the wait.
        if usual > amount and need <= usual and (wait == -1 or wait > overridden) then
          wait, estimate = overridden, estimate % 2 == 0 and estimate + 1 or estimate
        elseif wait > overridden and estimate % 2 == 0 then
          estimate = estimate + 1
        end
      end
      waits, estimates = waits or {}, estimates or {}
      waits[index], estimates[index] = wait, estimate
      if flags % 2 == 0 and longest ~= -1 and (wait == -1 or wait > longest) then
        worst, longest = index - 1, wait
      end
    end
  end

  if unseeded then
    return unseeded
  end
  if mode == 2 or (mode == 0 and worst >= 0) then
    local refused = {1, now, born, worst}
    for index = 1, count do
      local at, left, reset = index * 4 + 1, told[index * 2 + 2], told[index * 2 + 3]
      reset = reset or free_ring_in(values[places and places[index] or index], rules[index * 7 - 2] / 16)
      refused[at], refused[at + 1] = math.max(0, left), reset
      refused[at + 2], refused[at + 3] = waits and waits[index] or 0, waits and estimates[index] or 0
    end
    return refused
  end

  local reservation = type(held) == 'string' and cmsgpack.unpack(held) or held
    or {now, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}
  local entry = #reservation
  for index = 1, count do
    local at, bucket = index * 7 - 7, places and places[index] or index
    local code = rules[at + 1]
    local kind = code % 4
    local resource = (code - kind) / 4
    local need = ask[resource + 3]
    reservation[entry + 1] = (base + index) * 32 + code
    told[index * 2 + 2] = told[index * 2 + 2] - need
    if kind == 1 then
      local ring = values[bucket]
      local place, window = ring[1], rules[at + 5]
      if need > 0 then
        local slot = place % SLOTS + 2
        ring[slot] = ring[slot] + need
        sums[bucket] = sums[bucket] + need
        if resource > 1 then
          with_flights(ring)
          ring[slot + SLOTS] = ring[slot + SLOTS] + need
        end
        kept_ms[bucket] = 2 * window + MORE
        told[index * 2 + 3] = math.ceil((place + SLOTS) * (window / 16)) - now
      else
        told[index * 2 + 3] = told[index * 2 + 3] or free_ring_in(ring, window / 16)
      end
      reservation[entry + 2], reservation[entry + 3], reservation[entry + 4] = need, place, window
      entry = entry + 4
    elseif kind == 2 then
      local calendar = values[bucket]
      if calendars and calendars[index] then
        calendar = calendars[index]
        values[bucket], renewed[bucket] = calendar, true
      end
      local start, finish, next_finish = calendar[1], rules[at + 6], rules[at + 7]
      if start ~= rules[at + 5] then
        finish = next_finish
      end
      calendar[2] = calendar[2] + need
      if resource > 1 then
        with_quarters(calendar)
        calendar[4] = calendar[4] + need
      end
      kept_ms[bucket] = finish - now + DAY
      if need > 0 then
        told[index * 2 + 3] = finish - now
      end
      reservation[entry + 2], reservation[entry + 3], reservation[entry + 4], reservation[entry + 5] = need, start, finish, next_finish
      entry = entry + 5
    else
      local state = leases[bucket]
      if redis.call('ZADD', KEYS[bucket + 1], now + lease, string.sub(reservation_key, ID_START)) == 1 then
        state[1] = state[1] + 1
      else
        state[1] = false  -- it had one, which may have ended
      end
      state[2] = state[2] + 1
      entry = entry + 1
    end
  end
  reservations[reservation_key] = reservation
  return told
end
