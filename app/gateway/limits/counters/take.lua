-- Takes what a request needs from all its buckets, or from none.
--
-- KEYS  1 the epoch, 2 the reservation, then the buckets.
-- ARGV  1 ten numbers for each bucket: kind, resource, amount, flags (1: a dry run, 2: counts as full after a loss, until it has
--           passed), the latest start of an epoch at which it lost nothing (it is newer, or starts empty), then
--           of a window (kind 1): its length; of a calendar (2): the starts of this period, the next and the one after;
--           of leases (3): nothing; then of all: another amount, and until when it is in force
--       2 mode, how many buckets the reservation has already, the length of a lease, then the need of each resource
-- Modes 0 take or refuse; 1 take in any case, once for each reservation; 2 preview; + 4: although a calendar bucket is unseeded.
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
local found = redis.call('MGET', unpack(KEYS))
local epoch = found[1]
if not epoch then
  return {2, now}
end
local born = tonumber(string.match(epoch, '^%d+'))
local rules, ask = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2])
local mode, lax, base, lease = ask[1] % 4, ask[1] >= 4, ask[2], ask[3]
local held = found[2]
if held and mode == 1 then
  for index = 3, #KEYS do
    if rules[(index - 3) * 10 + 1] == 3 then
      redis.call('ZADD', KEYS[index], now + lease, string.sub(KEYS[2], 6))
    end
  end
  return {0, now, born}
end
if held and mode == 0 and (base == 0 or held == 'x') then
  return {5, now}
end

local count = #KEYS - 2
local buckets, places, lefts, resets, waits, estimates, finishes = {}, {}, {}, {}, {}, {}, {}
local worst, longest, unseeded = -1, 0, nil
for index = 1, count do
  local at, key, raw = (index - 1) * 10, KEYS[index + 2], found[index + 2]
  local kind, resource, amount, need = rules[at + 1], rules[at + 2], rules[at + 3], ask[rules[at + 2] + 3]
  local left, reset, wait, estimate = 0, 0, 0, 0
  local overridden = rules[at + 10] - now
  local usual = amount
  if overridden > 0 then
    amount = rules[at + 9]
  end
  local dry, stays_full, has_lost = rules[at + 4] % 2 == 1, rules[at + 4] >= 2, born > rules[at + 5]
  if kind == 1 then
    local window = rules[at + 6]
    local width = window / 16
    local slot = math.floor(now / width)
    local ring = ring_at(raw, slot)
    slot = ring[1]
    local sum = 0
    for place = 2, SLOTS + 1 do
      sum = sum + ring[place]
    end
    left = amount - sum
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
    for newest = slot, slot - SLOTS + 1, -1 do
      if ring[newest % SLOTS + 2] > 0 then
        reset = math.ceil((newest + SLOTS) * width) - now
        break
      end
    end
    if has_lost and now <= born + window and (stays_full or not is_rebuilt(key, born)) then
      -- What was admitted before the memory was lost is not known, so the window counts as full.
      -- It is rebuilt once all workers have had time to take again what is in flight.
      local passed, rebuilt = born + window + 1 - now, math.max(born + lease + 1 - now, 0) + REBUILDING
      left, reset = 0, math.max(reset, passed)
      if need > 0 and wait >= 0 then
        if stays_full or passed <= rebuilt then
          wait, estimate = math.max(wait, passed), 2
        else
          wait, estimate = math.max(wait, rebuilt), 3
        end
      end
    end
    buckets[index], places[index], finishes[index] = ring, slot, math.ceil((slot + SLOTS) * width) - now
  elseif kind == 2 then
    local start, finish = rules[at + 6], rules[at + 7]
    if now < start or now >= rules[at + 8] then
      return {4, now}
    end
    if now >= finish then
      start, finish = finish, rules[at + 8]
    end
    local bucket = raw and cmsgpack.unpack(raw)
    if not bucket or bucket[1] < start then
      bucket = {start, 0, (start >= born or not has_lost) and 1 or 0}
    elseif bucket[1] > start then  -- the clock went back
      start, finish = bucket[1], rules[at + 8]
    end
    has_lost = has_lost and start < born
    -- Requests in flight when the memory was lost are in no ledger: their workers take them again within the length of a lease.
    local recovering = has_lost and now <= born + lease
    if has_lost and bucket[3] ~= 1 and mode ~= 1 and not lax and not recovering and not stays_full then
      unseeded = unseeded or {3, now, born}
      unseeded[#unseeded + 1] = index - 1
    end
    left, reset = amount - bucket[2], bucket[2] > 0 and finish - now or 0
    if need > amount then
      wait = -1
    elseif has_lost and stays_full and need > 0 then
      wait, estimate = finish - now, 2
    elseif need > left and need > 0 then
      wait = finish - now
      if bucket[7] then
        with_quarters(bucket)
        if need <= left + bucket[4] + bucket[5] then
          wait, estimate = math.min(wait, bucket[7] > 0 and bucket[7] or 1000), 1
        end
      end
    elseif recovering and need > 0 then
      wait, estimate = born + lease + 1 - now, 3
    end
    if recovering then
      left = 0
    elseif has_lost and stays_full then
      left, reset = 0, finish - now
    end
    buckets[index], places[index], finishes[index] = bucket, start, finish - now
  else
    local taken = redis.call('ZCOUNT', key, '(' .. string.format('%.0f', now), '+inf')
    left = amount - taken
    if need > amount then
      wait = -1
    elseif need > left or (has_lost and now <= born + lease) then
      -- An estimate: with leases held for `mean` ms, one of `taken` ends after mean / taken. Below 0, so that it is never counted.
      local mean = redis.call('ZSCORE', key, '~')
      wait, estimate = math.max(1, math.ceil((mean and -tonumber(mean) or 1000) / math.max(1, taken))), 1
      if has_lost and now <= born + lease then
        left, wait, estimate = 0, math.max(wait, born + lease + 1 - now), 3
      end
    end
    finishes[index] = 0
  end
  if overridden > 0 and wait ~= 0 then
    -- When the usual amount is in force again, it may pass sooner, or not even after the wait.
    if usual > amount and need <= usual and (wait == -1 or wait > overridden) then
      wait, estimate = overridden, estimate % 2 == 0 and estimate + 1 or estimate
    elseif wait > overridden and estimate % 2 == 0 then
      estimate = estimate + 1
    end
  end
  lefts[index], resets[index], waits[index], estimates[index] = left, reset, wait, estimate
  if not dry and wait ~= 0 and longest ~= -1 and (wait == -1 or wait > longest) then
    worst, longest = index - 1, wait
  end
end

if unseeded then
  return unseeded
end
if mode == 2 or (mode == 0 and worst >= 0) then
  local told = {1, now, born, worst}
  for index = 1, count do
    local at = index * 4 + 1
    told[at], told[at + 1], told[at + 2], told[at + 3] = math.max(0, lefts[index]), resets[index], waits[index], estimates[index]
  end
  return told
end

local told = {0, now, born}
local reservation = held and cmsgpack.unpack(held) or {now}
local member = string.sub(KEYS[2], 6)
for index = 1, count do
  local at, key = (index - 1) * 10, KEYS[index + 2]
  local kind, resource = rules[at + 1], rules[at + 2]
  local need = ask[resource + 3]
  local place, x, y = 0, 0, 0
  if kind == 1 then
    place, x = places[index], rules[at + 6]
    if need > 0 then
      local ring = buckets[index]
      ring[place % SLOTS + 2] = ring[place % SLOTS + 2] + need
      if resource > 1 then
        with_flights(ring)
        ring[place % SLOTS + 2 + SLOTS] = ring[place % SLOTS + 2 + SLOTS] + need
      end
      keep_ring(key, ring, x)
    end
  elseif kind == 2 then
    place, x, y = places[index], now + finishes[index], rules[at + 8]
    local bucket = buckets[index]
    bucket[2] = bucket[2] + need
    if resource > 1 then
      with_quarters(bucket)
      bucket[4] = bucket[4] + need
    end
    redis.call('SET', key, cmsgpack.pack(bucket), 'PX', finishes[index] + DAY)
  else
    redis.call('ZREMRANGEBYSCORE', key, '(0', now)
    redis.call('ZADD', key, now + lease, member)
    redis.call('PEXPIRE', key, DAY)
  end
  local entry = #reservation
  reservation[entry + 1], reservation[entry + 2], reservation[entry + 3], reservation[entry + 4] = base + index, kind, resource, need
  reservation[entry + 5], reservation[entry + 6], reservation[entry + 7] = place, x, y
  local left = lefts[index] - need
  told[index * 2 + 2] = left
  told[index * 2 + 3] = need > 0 and finishes[index] or resets[index]
end
redis.call('SET', KEYS[2], cmsgpack.pack(reservation), 'PX', 7200000)
return told
