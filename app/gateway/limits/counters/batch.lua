-- Runs operations one by one in their order, with the replies and the state that as many calls of one operation each would have.
-- An operation that finds a bucket broken gets an error as its reply, and the others do not notice.
--
-- KEYS  1 the epoch, then the buckets, then the reservation of each operation.
-- ARGV  1 {length of a lease, number of buckets, then the operations: each {its row, its mode (8: settle, else see take.lua), how many
--         buckets the reservation has already, then what is needed or was spent of each resource}}
--       then of each row, which is what operations have in common: its rules, and, if there are several, the places of its buckets
--       among those of the batch.
--
-- Replies what take or settle reply, or an error that begins with BROKEN; to several operations an array, packed, of what each of them
-- would get, with a text for an error: Lua takes longer for nested arrays.
local rules, places, replies, has_places = {}, {}, {}, #ARGV > 2
for index = 3, #operations do
  local operation = operations[index]
  local row, reservation_key = operation[1], KEYS[bucket_count + index - 1]
  local row_places, count = places[row], bucket_count
  if has_places then
    row_places = row_places or cmsgpack.unpack(ARGV[2 * row + 1])
    places[row], count = row_places, #row_places
  end
  local reservation = reservations[reservation_key]
  if reservation == nil then
    reservation = found[bucket_count + index - 1]
  end
  local succeeded, reply
  if operation[2] == SETTLE then
    succeeded, reply = pcall(settle, operation, reservation_key, reservation, row_places)
  else
    rules[row] = rules[row] or cmsgpack.unpack(ARGV[2 * row])
    succeeded, reply = pcall(take, operation, reservation_key, reservation, rules[row], row_places, count)
  end
  if not succeeded then
    -- All else, such as a server that cannot write, is an error of all operations.
    local message = type(reply) == 'table' and reply.err or reply
    local is_of_a_bucket = false
    for _, text in ipairs({'WRONGTYPE', 'attempt to', 'bad argument', 'Bad data format', 'Missing bytes'}) do
      is_of_a_bucket = is_of_a_bucket or string.find(message, text, 1, true)
    end
    if not is_of_a_bucket then
      error(reply, 0)
    end
    reply = 'BROKEN ' .. message
  end
  replies[index - 2] = reply
end

for bucket, ms in pairs(kept_ms) do
  if renewed[bucket] then
    redis.call('SET', KEYS[bucket + 1], cmsgpack.pack(values[bucket]), 'PX', ms)
  else
    redis.call('SET', KEYS[bucket + 1], cmsgpack.pack(values[bucket]), 'KEEPTTL')
  end
end
for bucket, state in pairs(leases) do
  local key, is_new = KEYS[bucket + 1], state[3] and not state[4]
  if state[2] > 0 then
    -- A key that is older has expired by then, a day later, only if none of its batches came in such a millisecond.
    is_new = is_new or now % 16 == 0 or redis.call('ZCARD', key) <= state[2]
    if now % 16 == 0 then
      redis.call('ZREMRANGEBYSCORE', key, '(0', now)  -- they do not count, so now and then is often enough
    end
  end
  if state[3] ~= state[4] then
    redis.call('ZADD', key, -state[3], '~')
  end
  if is_new then
    redis.call('PEXPIRE', key, DAY)
  end
end
local ended = {}
for key, reservation in pairs(reservations) do
  if reservation == 'x' then
    redis.call('SET', key, 'x', 'PX', 60000)
  elseif reservation then
    redis.call('SET', key, cmsgpack.pack(reservation), 'PX', 7200000)
  else
    ended[#ended + 1] = key
  end
end
if ended[1] then
  redis.call('DEL', unpack(ended))
end
if #operations > 3 then
  return cmsgpack.pack(replies)
end
return type(replies[1]) == 'string' and {err = replies[1]} or replies[1]
