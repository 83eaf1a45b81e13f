-- Empties a bucket so far that there is nothing in it for a time.
-- KEYS[1]: the bucket. ARGV: tokens a second, the most that it holds, for how many milliseconds.
local rate, most, rest = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(state[1]) or most, tonumber(state[2]) or now
tokens = math.min(most, tokens + math.max(0, now - at) * rate / 1000000, -rest * rate / 1000)
redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil((most - tokens) * 1000 / rate) + 1000)
