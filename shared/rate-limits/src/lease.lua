-- Takes tokens from a bucket.
-- KEYS[1]: the bucket. ARGV: tokens per second, capacity, tokens to leave in it, tokens wanted, priority capacity, and 1 if
-- the caller may take priority tokens. These are counted separately; a fifth of the added tokens goes to them first.
-- Returns the tokens taken, the tokens left to this caller, and the milliseconds until the next one if none was taken.
local rate, most, reserve, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local capacity, has_priority = tonumber(ARGV[5]), ARGV[6] == '1'
local share = 0.2
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local state = redis.call('HMGET', KEYS[1], 'tokens', 'at', 'rests_until', 'priority')
local tokens, at = tonumber(state[1]) or most, tonumber(state[2]) or now
local priority = math.min(capacity, tonumber(state[4]) or capacity)
-- No tokens are added until then. The time is at most a minute ahead, even if the clock was set back.
local blocked_until = math.min(tonumber(state[3]) or 0, now + 60000000)
local blocked_ms = math.max(0, blocked_until - now) / 1000
-- A clock that was set back adds no tokens.
local added = math.max(0, now - math.max(at, blocked_until)) * rate / 1000000
local to_priority = math.min(capacity - priority, added * share)
priority = priority + to_priority
tokens = math.min(most, tokens + added - to_priority)
local taken = 0
if blocked_ms == 0 then
    local own = math.max(0, math.min(wanted, math.floor(tokens - reserve)))
    tokens = tokens - own
    local extra = 0
    if has_priority then
        extra = math.min(wanted - own, math.floor(priority))
        priority = priority - extra
    end
    taken = own + extra
end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.0f', now), 'priority', string.format('%.6f', priority))
-- A full bucket may expire: a missing bucket is full.
local missing = math.max(most - tokens + capacity - priority, (capacity - priority) / share)
redis.call('PEXPIRE', KEYS[1], math.ceil(blocked_ms + missing * 1000 / rate) + 1000)
local wait = 0
if taken == 0 then
    local short = 1 + reserve - tokens
    local needed = math.min(short / (1 - share), short + capacity - priority)
    if has_priority then
        needed = math.min(needed, (1 - priority) / share)
    end
    wait = math.ceil(blocked_ms + needed * 1000 / rate)
end
local left = math.floor(tokens)
if has_priority then
    left = left + math.floor(priority)
end
return { taken, math.max(0, left), wait }
