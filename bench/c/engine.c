/* The mock engine: an OpenAI-compatible server that costs next to nothing, so that a measurement shows the proxy in front of it.

   A request's text controls its stream: "chunks=250 interval_us=20000". Each content chunk carries the time at which it was sent
   (CLOCK_MONOTONIC, 19 digits between tildes), which the load client on the same machine reads. One thread, one epoll, one timer.
   usage: engine PORT */
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

#define MAX_FDS 65536
#define MAX_BODY (4u << 20)

struct conn {
    int fd;
    struct http http;
    char *body, *out;
    size_t body_size, body_capacity, out_at, out_size, out_capacity;
    uint64_t due_ns, interval_ns; /* of the stream's next chunk */
    long chunks_left;
    int wants_usage;
    long heap_at; /* position in the heap; -1: no stream */
};

static struct conn *conns[MAX_FDS];
static struct conn *heap[MAX_FDS]; /* streams by due time, the earliest first */
static long heap_size;
static int epoll_fd, timer_fd;

static const char RESPONSE[] =
    "{\"id\":\"chatcmpl-5f0c2d7e9a4b4c21b3a8d6e1f0927c44\",\"object\":\"chat.completion\",\"created\":1763700000,\"model\":\"mock\",\"choices\":"
    "[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"This is the mock engine speaking. It answers every question with the same "
    "two hundred and some characters, because a benchmark of a proxy wants an engine that costs nothing and contains nothing, at once and for "
    "ever, the same to all.\",\"refusal\":null,\"tool_calls\":[],\"reasoning_content\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],"
    "\"usage\":{\"prompt_tokens\":31,\"completion_tokens\":48,\"total_tokens\":79},\"system_fingerprint\":null}";
static const char MODELS[] = "{\"object\":\"list\",\"data\":[{\"id\":\"mock\",\"object\":\"model\",\"created\":1763700000,\"owned_by\":\"bench\","
                             "\"root\":\"mock\",\"max_model_len\":32768}]}";
static const char VERSION[] = "{\"version\":\"0.12.0\"}";
static const char NOT_FOUND[] = "{\"error\":{\"message\":\"no such route\",\"type\":\"invalid_request_error\",\"code\":404,\"param\":null}}";
static const char *FRAME_OPEN = "data: {\"id\":\"chatcmpl-5f0c2d7e9a4b4c21b3a8d6e1f0927c44\",\"object\":\"chat.completion.chunk\","
                                "\"created\":1763700000,\"model\":\"mock\",\"choices\":[";

static void swap(long a, long b) {
    struct conn *c = heap[a];
    heap[a] = heap[b], heap[b] = c;
    heap[a]->heap_at = a, heap[b]->heap_at = b;
}

static void restore_heap_order(long at) { /* moves the entry at `at` up or down, whichever is needed */
    while (at && heap[(at - 1) / 2]->due_ns > heap[at]->due_ns) swap(at, (at - 1) / 2), at = (at - 1) / 2;
    for (;;) {
        long least = at, left = 2 * at + 1;
        if (left < heap_size && heap[left]->due_ns < heap[least]->due_ns) least = left;
        if (left + 1 < heap_size && heap[left + 1]->due_ns < heap[least]->due_ns) least = left + 1;
        if (least == at) return;
        swap(at, least), at = least;
    }
}

static void schedule(struct conn *c) {
    if (c->heap_at < 0) c->heap_at = heap_size, heap[heap_size++] = c;
    restore_heap_order(c->heap_at);
}

static void unschedule(struct conn *c) {
    long at = c->heap_at;
    if (at < 0) return;
    swap(at, --heap_size);
    c->heap_at = -1;
    if (at < heap_size) restore_heap_order(at);
}

static void set_timer(void) {
    struct itimerspec when = {0};
    if (heap_size) when.it_value.tv_sec = (time_t)(heap[0]->due_ns / 1000000000ull), when.it_value.tv_nsec = (long)(heap[0]->due_ns % 1000000000ull);
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void drop(struct conn *c) {
    unschedule(c);
    conns[c->fd] = NULL;
    close(c->fd);
    free(c->body), free(c->out), free(c);
}

static void watch(struct conn *c, uint32_t events) {
    struct epoll_event e = {.events = events, .data.fd = c->fd};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

/* Sends bytes, and buffers what a slow reader does not take yet. Returns 0 if the connection is broken. */
static int put(struct conn *c, const char *bytes, size_t size) {
    if (c->out_at == c->out_size) {
        ssize_t sent = send(c->fd, bytes, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return 0;
        if (sent > 0) bytes += sent, size -= (size_t)sent;
        if (!size) return 1;
        c->out_at = c->out_size = 0;
        watch(c, EPOLLIN | EPOLLOUT);
    }
    if (c->out_size + size > c->out_capacity) {
        c->out_capacity = 2 * (c->out_size + size);
        c->out = realloc(c->out, c->out_capacity);
    }
    memcpy(c->out + c->out_size, bytes, size);
    c->out_size += size;
    return 1;
}

static int flush_out(struct conn *c) {
    ssize_t sent = send(c->fd, c->out + c->out_at, c->out_size - c->out_at, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN;
    c->out_at += (size_t)sent;
    if (c->out_at == c->out_size) watch(c, EPOLLIN);
    return 1;
}

static int put_response(struct conn *c, const char *status, const char *json, size_t size) {
    char response[2048];
    int length = snprintf(response, sizeof response, "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s", status, size, json);
    return put(c, response, (size_t)length);
}

/* One server-sent event as one HTTP chunk, in one write. */
static size_t frame(char *to, size_t room, const char *choice, const char *tail) {
    char event[768];
    int size = snprintf(event, sizeof event, "%s%s],%s\n\n", FRAME_OPEN, choice, tail);
    return (size_t)snprintf(to, room, "%x\r\n%s\r\n", size, event);
}

static const char NO_USAGE[] = "\"usage\":null}";
static const char ROLE[] = "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}";
static const char STOP[] = "{\"index\":0,\"delta\":{\"content\":\"\"},\"logprobs\":null,\"finish_reason\":\"stop\"}";

static long number_after(const struct conn *c, const char *word, long fallback) {
    const char *at = memmem(c->body, c->body_size, word, strlen(word));
    return at ? atol(at + strlen(word)) : fallback;
}

static int contains(const struct conn *c, const char *word) { return memmem(c->body, c->body_size, word, strlen(word)) != NULL; }

static int open_stream(struct conn *c) {
    char out[2048];
    size_t size = (size_t)snprintf(out, sizeof out, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
                                                    "transfer-encoding: chunked\r\n\r\n");
    size += frame(out + size, sizeof out - size, ROLE, NO_USAGE);
    c->chunks_left = number_after(c, "chunks=", 16);
    c->interval_ns = (uint64_t)number_after(c, "interval_us=", 10000) * 1000ull;
    c->wants_usage = contains(c, "\"include_usage\":true") || contains(c, "\"include_usage\": true");
    c->due_ns = now_ns() + c->interval_ns;
    schedule(c);
    return put(c, out, size);
}

static int put_chunk(struct conn *c) {
    char out[1024], choice[256];
    snprintf(choice, sizeof choice, "{\"index\":0,\"delta\":{\"content\":\"~%019llu~ word\"},\"logprobs\":null,\"finish_reason\":null}",
             (unsigned long long)now_ns());
    return put(c, out, frame(out, sizeof out, choice, NO_USAGE));
}

static int put_last_frames(struct conn *c) {
    char out[2048];
    size_t size = frame(out, sizeof out, STOP, NO_USAGE);
    if (c->wants_usage)
        size += frame(out + size, sizeof out - size, "", "\"usage\":{\"prompt_tokens\":31,\"completion_tokens\":48,\"total_tokens\":79}}");
    size += (size_t)snprintf(out + size, sizeof out - size, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    return put(c, out, size);
}

static void send_due_chunks(void) {
    uint64_t now = now_ns();
    while (heap_size && heap[0]->due_ns <= now) {
        struct conn *c = heap[0];
        int connected = 1;
        if (c->chunks_left-- > 0) connected = put_chunk(c);
        if (connected && c->chunks_left <= 0) {
            connected = put_last_frames(c);
            unschedule(c);
        } else if (connected) {
            c->due_ns += c->interval_ns; /* from the last due time, not from now: delays must not lengthen the stream */
            restore_heap_order(c->heap_at);
        }
        if (!connected) drop(c);
    }
    set_timer();
}

static void append_body(void *owner, const char *bytes, size_t size) {
    struct conn *c = owner;
    if (c->body_size + size > MAX_BODY) return;
    if (c->body_size + size > c->body_capacity) {
        c->body_capacity = 2 * (c->body_size + size);
        c->body = realloc(c->body, c->body_capacity);
    }
    memcpy(c->body + c->body_size, bytes, size);
    c->body_size += size;
}

static int respond(struct conn *c) {
    const char *head = c->http.head;
    if (!strncmp(head, "POST /v1/chat/completions", 25) || !strncmp(head, "POST /chat/completions", 22)) {
        if (contains(c, "\"stream\":true") || contains(c, "\"stream\": true")) return open_stream(c);
        return put_response(c, "200 OK", RESPONSE, sizeof RESPONSE - 1);
    }
    if (!strncmp(head, "GET /v1/models", 14)) return put_response(c, "200 OK", MODELS, sizeof MODELS - 1);
    if (!strncmp(head, "GET /version", 12)) return put_response(c, "200 OK", VERSION, sizeof VERSION - 1);
    if (!strncmp(head, "GET /health", 11)) return put_response(c, "200 OK", "{}", 2);
    return put_response(c, "404 Not Found", NOT_FOUND, sizeof NOT_FOUND - 1);
}

static int receive(struct conn *c) {
    char bytes[65536];
    ssize_t got = recv(c->fd, bytes, sizeof bytes, 0);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    for (size_t at = 0; at < (size_t)got;) {
        at += http_feed(&c->http, bytes + at, (size_t)got - at, append_body, c);
        if (c->http.state == HTTP_BROKEN) return 0;
        if (c->http.state != HTTP_DONE) break;
        if (!respond(c)) return 0;
        http_reset(&c->http, HTTP_REQUEST);
        c->body_size = 0;
        set_timer();
    }
    return 1;
}

static void accept_clients(int listener) {
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= MAX_FDS) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct conn *c = calloc(1, sizeof *c);
        c->fd = fd, c->heap_at = -1;
        http_reset(&c->http, HTTP_REQUEST);
        conns[fd] = c;
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
    }
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 0)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* ends with the benchmark */
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (argc < 2 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) {
        perror("engine: cannot listen");
        return 1;
    }
    epoll_fd = epoll_create1(0);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e);
    e.data.fd = timer_fd;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &e);
    for (;;) {
        struct epoll_event events[256];
        int count = epoll_wait(epoll_fd, events, 256, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                accept_clients(listener);
            } else if (fd == timer_fd) {
                uint64_t ticks;
                if (read(timer_fd, &ticks, sizeof ticks) > 0) send_due_chunks();
            } else {
                struct conn *c = conns[fd];
                if (!c) continue; /* dropped earlier in this round */
                if ((events[i].events & EPOLLOUT) && !flush_out(c)) drop(c);
                else if ((events[i].events & ~(uint32_t)EPOLLOUT) && !receive(c)) drop(c);
            }
        }
    }
}
