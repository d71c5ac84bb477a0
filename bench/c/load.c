/* The load client: three kinds of load, every failure counted, one line of JSON at the end.

   closed   --connections N --seconds T           N connections, each sending its next request as soon as it has its response
   open     --rate R --seconds T                  a request every 1/R seconds, however late responses are; latency from the intended send time
   streams  --connections N --chunks C --ramp S   N streams started evenly over S seconds; each must have C timed chunks and [DONE]
   always   --port P --body FILE [--header "Name: value"]... [--expect TEXT] [--grace S] [--path /v1/chat/completions]

   A response counts only if it is a complete 200 with the expected text (a stream: its chunks and [DONE]). A request without a response
   after the grace period is a failure, and its age so far is among the latencies: leaving it out would favour slow systems. */
#include "http.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MAX_CONNS 4096
#define BODY_KEPT 16384

enum phase { CLOSED, IDLE, CONNECTING, WAITING };
enum failure { F_CONNECT, F_RESET, F_STATUS, F_SHORT, F_TIMEOUT, F_KINDS };
static const char *const FAILURE_NAMES[] = {"connect", "reset", "status", "short", "timeout"};

struct conn {
    int fd, number;
    enum phase phase;
    struct http http;
    uint64_t intended_ns;
    size_t sent;
    char body[BODY_KEPT]; /* of a stream its last bytes, otherwise the beginning */
    size_t body_size;
    long chunks;
    int digits; /* read so far of a chunk's timestamp; -1: outside one */
    uint64_t stamp_ns;
    int opened; /* the first byte of the body has arrived */
};

struct samples {
    double *us;
    size_t size, capacity;
};

static struct conn conns[MAX_CONNS];
static struct samples latencies, delays;
static long failures[F_KINDS], answered;
static char first_failure[600];
static int epoll_fd, timer_fd, streaming, open_loop, stopped;
static char *request;
static size_t request_size;
static struct sockaddr_in address;
static const char *expect = "";
static long expected_chunks;
static int idle[MAX_CONNS], idle_size, reopening[MAX_CONNS], reopening_size;
static long ended_streams, opened_streams, open_now; /* streams that ended in any way, that had a first byte, that are open */

static void add(struct samples *s, double us) {
    if (s->size == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 1 << 16;
        s->us = realloc(s->us, s->capacity * sizeof *s->us);
    }
    s->us[s->size++] = us;
}

static void count_failure(const struct conn *c, enum failure kind) {
    failures[kind]++;
    if (first_failure[0]) return;
    char text[301] = "";
    size_t size = 0;
    for (size_t i = 0; i < c->body_size && size < 300; i++) {
        char b = c->body[i];
        text[size++] = (b < ' ' || b == '"' || b == '\\' || b == 127) ? ' ' : b;
    }
    text[size] = 0;
    snprintf(first_failure, sizeof first_failure, "%s, status %d: %s", FAILURE_NAMES[kind], c->http.status, text);
}

static void close_connection(struct conn *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    c->phase = CLOSED;
}

static void send_request(struct conn *c, uint64_t intended_ns);

/* The request of this connection is over; `failed` < 0: with a correct response. */
static void complete_request(struct conn *c, int failed) {
    int reusable = failed < 0 && !c->http.close;
    if (failed >= 0) count_failure(c, (enum failure)failed);
    else answered++;
    if (failed < 0 || open_loop) add(&latencies, (double)(now_ns() - c->intended_ns) / 1e3);
    if (streaming) {
        ended_streams++;
        open_now -= c->opened;
    }
    if (reusable) c->phase = IDLE;
    else close_connection(c);
    if (streaming || stopped) return;
    if (open_loop) idle[idle_size++] = c->number;
    else if (failed >= 0) reopening[reopening_size++] = c->number; /* in the next iteration: a proxy that refuses must not cause recursion */
    else send_request(c, now_ns());
}

static void send_rest(struct conn *c) {
    ssize_t sent = send(c->fd, request + c->sent, request_size - c->sent, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        complete_request(c, F_RESET);
        return;
    }
    if (sent > 0) c->sent += (size_t)sent;
    struct epoll_event e = {.events = c->sent < request_size ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.u32 = (uint32_t)c->number};
    if (c->sent < request_size || c->phase == CONNECTING) epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
    c->phase = WAITING;
}

static void send_request(struct conn *c, uint64_t intended_ns) {
    int fresh = c->fd < 0, on = 1;
    c->intended_ns = intended_ns;
    c->sent = c->body_size = 0;
    c->chunks = c->opened = 0;
    c->digits = -1;
    http_reset(&c->http, HTTP_RESPONSE);
    if (fresh) {
        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        c->phase = CONNECTING;
        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.u32 = (uint32_t)c->number};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
        if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS) complete_request(c, F_CONNECT);
        return;
    }
    c->phase = WAITING;
    send_rest(c);
}

/* Timestamps are ~NINETEEN DIGITS~ inside the content, so they are found however the proxy writes its JSON and wherever reads split. */
static void read_stamps(struct conn *c, const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (c->digits < 0) {
            const char *tilde = memchr(bytes + i, '~', size - i);
            if (!tilde) return;
            i = (size_t)(tilde - bytes);
            c->digits = 0, c->stamp_ns = 0;
        } else if (bytes[i] >= '0' && bytes[i] <= '9' && c->digits < 19) {
            c->stamp_ns = 10 * c->stamp_ns + (uint64_t)(bytes[i] - '0'), c->digits++;
        } else {
            if (bytes[i] == '~' && c->digits == 19) {
                c->chunks++;
                add(&delays, (double)(now_ns() - c->stamp_ns) / 1e3);
            }
            c->digits = -1;
        }
    }
}

static void append_body(void *owner, const char *bytes, size_t size) {
    struct conn *c = owner;
    if (streaming && !c->opened) c->opened = 1, opened_streams++, open_now++;
    if (streaming && c->http.status == 200) {
        read_stamps(c, bytes, size);
        size_t kept = 64; /* enough for [DONE] and the white space after it */
        if (size >= kept) bytes += size - kept, size = kept, c->body_size = 0;
        if (c->body_size + size > 2 * kept) {
            memmove(c->body, c->body + c->body_size - kept, kept);
            c->body_size = kept;
        }
    }
    if (size > BODY_KEPT - c->body_size) size = BODY_KEPT - c->body_size;
    memcpy(c->body + c->body_size, bytes, size);
    c->body_size += size;
}

static int is_correct(const struct conn *c) {
    if (streaming) return c->chunks == expected_chunks && memmem(c->body, c->body_size, "[DONE]", 6);
    return memmem(c->body, c->body_size, expect, strlen(expect)) != NULL;
}

static void receive(struct conn *c) {
    static char bytes[65536];
    ssize_t got = recv(c->fd, bytes, sizeof bytes, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (c->phase != WAITING) { /* the server closed a connection without a request: not a failure */
        close_connection(c);
        return;
    }
    if (got <= 0) {
        int complete = got == 0 && c->http.state == HTTP_UNTIL_CLOSE;
        c->http.close = 1;
        if (!complete) complete_request(c, c->http.state == HTTP_HEAD && !c->http.head_size ? F_RESET : F_SHORT);
        else complete_request(c, c->http.status != 200 ? F_STATUS : is_correct(c) ? -1 : F_SHORT);
        return;
    }
    http_feed(&c->http, bytes, (size_t)got, append_body, c);
    if (c->http.state == HTTP_BROKEN) complete_request(c, F_SHORT);
    else if (c->http.state == HTTP_DONE) complete_request(c, c->http.status != 200 ? F_STATUS : is_correct(c) ? -1 : F_SHORT);
}

static void run_event_loop_once(int timeout_ms) {
    struct epoll_event events[512];
    int count = epoll_wait(epoll_fd, events, 512, timeout_ms);
    for (int i = 0; i < count; i++) {
        if (events[i].data.u32 == MAX_CONNS) {
            uint64_t ticks;
            (void)!read(timer_fd, &ticks, sizeof ticks);
            continue;
        }
        struct conn *c = &conns[events[i].data.u32];
        if (c->fd < 0) continue;
        if (c->phase == CONNECTING) {
            int error = 0;
            socklen_t size = sizeof error;
            getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
            if (error) complete_request(c, F_CONNECT);
            else send_rest(c);
        } else if (c->phase == WAITING && c->sent < request_size && (events[i].events & EPOLLOUT)) {
            send_rest(c);
        } else if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
            receive(c);
        }
    }
}

static void wake_at(uint64_t when_ns) {
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(when_ns / 1000000000ull), .tv_nsec = (long)(when_ns % 1000000000ull)}};
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void run_closed(int connections, double seconds) {
    uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < connections; i++) send_request(&conns[i], now_ns());
    while (now_ns() < end) {
        int again = reopening_size;
        run_event_loop_once(again ? 1 : 50);
        for (int i = 0; i < again; i++) send_request(&conns[reopening[i]], now_ns());
        memmove(reopening, reopening + again, (size_t)(reopening_size - again) * sizeof *reopening);
        reopening_size -= again;
    }
    stopped = 1;
}

static void fail_pending_requests(void) {
    stopped = 1;
    for (int i = 0; i < MAX_CONNS; i++)
        if (conns[i].phase == CONNECTING || conns[i].phase == WAITING) complete_request(&conns[i], F_TIMEOUT);
}

static void run_open(double rate, double seconds, double grace) {
    uint64_t start_ns = now_ns() + 10000000ull, period = (uint64_t)(1e9 / rate);
    long total = (long)(rate * seconds), next = 0;
    for (idle_size = 0; idle_size < MAX_CONNS; idle_size++) idle[idle_size] = MAX_CONNS - 1 - idle_size;
    uint64_t deadline_ns = start_ns + (uint64_t)((seconds + grace) * 1e9);
    while (now_ns() < deadline_ns && (next < total || idle_size < MAX_CONNS)) {
        /* The connection that became idle last is used first, so that as few are open as the load needs. */
        while (next < total && idle_size && start_ns + (uint64_t)next * period <= now_ns()) send_request(&conns[idle[--idle_size]], start_ns + (uint64_t)next++ * period);
        wake_at(next < total ? start_ns + (uint64_t)next * period : deadline_ns);
        run_event_loop_once(100);
    }
    fail_pending_requests();
    for (; next < total; next++) { /* not sent, because all connections were busy: late, like the others */
        failures[F_TIMEOUT]++;
        add(&latencies, (double)(now_ns() - (start_ns + (uint64_t)next * period)) / 1e3);
    }
}

static void run_streams(int connections, double ramp, double hold, double grace) {
    uint64_t start_ns = now_ns(), step = (uint64_t)(ramp * 1e9 / connections), deadline_ns = start_ns + (uint64_t)((ramp + hold + grace) * 1e9);
    uint64_t report_ns = start_ns + (uint64_t)((ramp + 0.8 * hold) * 1e9);
    int next = 0, reported = 0;
    while (now_ns() < deadline_ns && ended_streams < connections) {
        while (next < connections && start_ns + (uint64_t)next * step <= now_ns()) {
            send_request(&conns[next], start_ns + (uint64_t)next * step);
            next++;
        }
        if (!reported && (opened_streams >= connections || ended_streams + open_now >= connections || now_ns() >= report_ns)) {
            reported = 1;
            printf("held %ld\n", open_now);
            fflush(stdout);
        }
        if (next < connections) wake_at(start_ns + (uint64_t)next * step);
        run_event_loop_once(100);
    }
    if (!reported) printf("held %ld\n", open_now);
    fail_pending_requests();
}

static int compare_samples(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const struct samples *s, double share) {
    if (!s->size) return 0;
    size_t rank = (size_t)(share * (double)s->size);
    return s->us[rank < s->size ? rank : s->size - 1];
}

static void print_samples(const char *name, struct samples *s) {
    qsort(s->us, s->size, sizeof *s->us, compare_samples);
    printf(",\"%s\":{\"count\":%zu,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"max\":%.1f}", name, s->size, percentile(s, 0.5), percentile(s, 0.9),
           percentile(s, 0.99), percentile(s, 1.0));
}

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *text = malloc(1 << 20);
    *size = file ? fread(text, 1, 1 << 20, file) : 0;
    if (file) fclose(file);
    return text;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "", *path = "/v1/chat/completions";
    char headers[4096] = "", *body = "";
    size_t body_size = 0;
    int connections = 1, port = 0;
    double seconds = 1, rate = 100, ramp = 1, grace = 5, hold = 1;
    for (int i = 2; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!strcmp(name, "--port")) port = atoi(value);
        else if (!strcmp(name, "--path")) path = value;
        else if (!strcmp(name, "--body")) body = read_file(value, &body_size);
        else if (!strcmp(name, "--header") && strlen(headers) + strlen(value) < sizeof headers - 4) strcat(strcat(headers, value), "\r\n");
        else if (!strcmp(name, "--connections")) connections = atoi(value);
        else if (!strcmp(name, "--seconds")) seconds = atof(value);
        else if (!strcmp(name, "--rate")) rate = atof(value);
        else if (!strcmp(name, "--ramp")) ramp = atof(value);
        else if (!strcmp(name, "--hold")) hold = atof(value);
        else if (!strcmp(name, "--grace")) grace = atof(value);
        else if (!strcmp(name, "--chunks")) expected_chunks = atol(value);
        else if (!strcmp(name, "--expect")) expect = value;
        else return fprintf(stderr, "load: unknown option %s\n", name), 2;
    }
    if (!body_size || connections > MAX_CONNS || rate <= 0) return fprintf(stderr, "load: needs a mode, --port and an existing --body\n"), 2;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_TIMERSLACK, 1);
    request = malloc(body_size + sizeof headers + 512);
    request_size = (size_t)snprintf(request, sizeof headers + 512,
                                    "POST %s HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\naccept: */*\r\n%scontent-length: %zu\r\n\r\n",
                                    path, port, headers, body_size);
    memcpy(request + request_size, body, body_size);
    request_size += body_size;
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    epoll_fd = epoll_create1(0);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = MAX_CONNS};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &e);
    for (int i = 0; i < MAX_CONNS; i++) conns[i].fd = -1, conns[i].number = i;

    uint64_t start_ns = now_ns();
    if (!strcmp(mode, "closed")) run_closed(connections, seconds);
    else if (!strcmp(mode, "open")) open_loop = 1, run_open(rate, seconds, grace);
    else if (!strcmp(mode, "streams")) streaming = 1, run_streams(connections, ramp, hold, grace);
    else return fprintf(stderr, "load: mode is closed, open or streams\n"), 2;

    printf("{\"seconds\":%.4f,\"answered\":%ld", (double)(now_ns() - start_ns) / 1e9, answered);
    for (int kind = 0; kind < F_KINDS; kind++) printf(",\"failed_%s\":%ld", FAILURE_NAMES[kind], failures[kind]);
    print_samples("latency_us", &latencies);
    print_samples("chunk_delay_us", &delays);
    printf(",\"first_failure\":\"%s\"}\n", first_failure);
    return 0;
}
