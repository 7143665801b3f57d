/*
 * Every limit of both proxy roles, with its unit. What happens at a limit is said where it is used.
 */
#pragma once

/* Heads, requests and answers alike: 431 above. */
#define LIMIT_HEAD_BYTES  65536
#define LIMIT_HEAD_FIELDS 100
/* What an ordinary head fits into: room for it is made once. */
#define LIMIT_HEAD_USUAL_BYTES 1024

/* One read; also the most of a body that is held while its request waits. */
#define LIMIT_READ_BYTES 65536

/* The edge keeps idle connections 90 s; ours must live longer than that. */
#define LIMIT_CLIENT_IDLE_MS 120000
#define LIMIT_CLIENT_HEAD_MS 10000
/* A client that takes nothing of what we have for it. */
#define LIMIT_CLIENT_STALL_MS  600000
#define LIMIT_CLIENT_LINGER_MS 1000
#define LIMIT_CLIENTS          16384

#define LIMIT_BROKER_RETRY_MIN_MS 5
#define LIMIT_BROKER_RETRY_MAX_MS 500
/* Whole records read ahead of what was handled. */
#define LIMIT_BROKER_IN_BYTES  (4 * 65536)
#define LIMIT_BROKER_OUT_BYTES (1024 * 1024)

#define LIMIT_DOOR_HELLO_MS     5000
#define LIMIT_DOOR_GREETING     64
#define LIMIT_DOOR_RECORD_BYTES 4096
#define LIMIT_DOOR_STREAMS      1024
#define LIMIT_DOOR_RESCAN_MS    20000
#define LIMIT_DOOR_RETRY_MS     100
#define LIMIT_DOORS             100000
#define LIMIT_DOOR_OUT_BYTES    262144
#define LIMIT_DOOR_OPEN_MS      10000

/* Idle streams to one app. Four seconds unless the app names its own keep-alive: Node and uvicorn
 * close at five, and a request written to a connection that the app has just closed is lost. */
#define LIMIT_POOL_STREAMS     64
#define LIMIT_POOL_IDLE_MS     4000
#define LIMIT_POOL_IDLE_MAX_MS 60000

#define LIMIT_UPSTREAM_HEAD_MS 900000
/* A stream was closed; how long its end or reset may take to arrive on the standing connection. */
#define LIMIT_UPSTREAM_END_MS 1000

/* How long a request is held: 3.5 times what this app's start usually takes, but never less than a
 * busy machine's queue needs, nor more than the 100 s that CDNs allow an answer to take. */
#define LIMIT_WAKE_BUDGET_MS     30000
#define LIMIT_WAKE_BUDGET_MAX_MS 90000
#define LIMIT_WAKE_PAGE_MS       1000
#define LIMIT_WAKE_RETRY_MS      500
#define LIMIT_WAKE_MEMORY_MS     2000
#define LIMIT_WAITERS            2048
#define LIMIT_WAITERS_OF_ONE     512
#define LIMIT_HOPS               4

#define LIMIT_ROUTES            100000
#define LIMIT_ROUTE_PORTS       64
#define LIMIT_ROUTES_FILE_BYTES (64 * 1024 * 1024)
#define LIMIT_ROUTES_SAVE_MS    200
#define LIMIT_TEXT_BYTES        8192

/* Passes that were verified and are remembered; one is renewed when less than half of it is left.
 */
#define LIMIT_PASSES             256
#define LIMIT_PASS_RENEW_MS      60000
#define LIMIT_PASS_RENEW_BELOW_S (6 * 3600)
/* Tickets that are being exchanged, how long that may take, and a path to come back to. */
#define LIMIT_ENTERING     64
#define LIMIT_ENTER_MS     10000
#define LIMIT_TICKET_BYTES 128
#define LIMIT_RETURN_BYTES 2048
#define LIMIT_WAKE_CLIENTS 4096

#define LIMIT_ACTIVITY_MS    2000
#define LIMIT_DRAIN_MS       3000
#define LIMIT_DRAIN_QUIET_MS 100

/* Credentials role. */
#define LIMIT_CREDENTIALS_BODY_BYTES (32LL * 1024 * 1024)
/* What is held of a body: to learn what it asks for, and to send it again on another connection. */
#define LIMIT_CREDENTIALS_HOLD_BYTES     (2 * 1024 * 1024)
#define LIMIT_CREDENTIALS_HOLD_ALL_BYTES (24 * 1024 * 1024)
/* Of a provider's error, read before it is passed on. */
#define LIMIT_CREDENTIALS_ERROR_BYTES 16384
/* A client that does not send the beginning of its body. */
#define LIMIT_CREDENTIALS_BODY_MS 30000
/* Nothing moves once an answer has begun; before it, a stream begins sooner than a whole answer. */
#define LIMIT_CREDENTIALS_IDLE_MS    120000
#define LIMIT_CREDENTIALS_STREAM_MS  300000
#define LIMIT_CREDENTIALS_WHOLE_MS   600000
#define LIMIT_CREDENTIALS_CONNECT_MS 10000
#define LIMIT_CREDENTIALS_OF_ONE     512
#define LIMIT_GRANTS                 1024
#define LIMIT_GRANT_WAIT_MS          30000
#define LIMIT_GRANT_ALONE_MS         900000
#define LIMIT_GRANT_PROVIDERS        16
#define LIMIT_GRANT_PATHS            32
#define LIMIT_GRANT_EXTRAS           8
#define LIMIT_GRANT_QUERIES          64
#define LIMIT_ADMIT_WAIT_MS          30000
#define LIMIT_TOKEN_BYTES            512
#define LIMIT_USAGE_QUEUE            1024
/* The longest that an agent is told to wait, whatever the provider says. */
#define LIMIT_RETRY_AFTER_S 60

/* A body that waits is decoded into a buffer of twice a read. */
_Static_assert(LIMIT_HEAD_BYTES <= 2 * LIMIT_READ_BYTES, "a head must fit into what is read ahead");
