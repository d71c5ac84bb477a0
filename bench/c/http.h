/* HTTP/1.1 messages, read incrementally: any split of bytes, fixed length, chunked, or until close. Bodies go to a callback. */
#ifndef BENCH_HTTP_H
#define BENCH_HTTP_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

typedef void (*http_body)(void *owner, const char *bytes, size_t size);
enum http_kind { HTTP_REQUEST, HTTP_RESPONSE };
enum http_state { HTTP_HEAD, HTTP_FIXED, HTTP_SIZE, HTTP_CHUNK, HTTP_CHUNK_END, HTTP_TRAILER, HTTP_UNTIL_CLOSE, HTTP_DONE, HTTP_BROKEN };

struct http {
    enum http_kind kind;
    enum http_state state;
    int status;    /* of a response */
    int close;     /* the peer will close the connection */
    uint64_t left; /* bytes of this body or chunk still to come */
    size_t head_size, line_size;
    char head[8192]; /* ends with a NUL once complete */
    char line[64];   /* a chunk's size, or the start of a trailer line */
};

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline void http_reset(struct http *h, enum http_kind kind) {
    h->kind = kind;
    h->state = HTTP_HEAD;
    h->status = h->close = 0;
    h->left = 0;
    h->head_size = h->line_size = 0;
}

/* The value of a header in a complete head, or NULL. */
static inline const char *http_header(const struct http *h, const char *name) {
    size_t size = strlen(name);
    for (const char *line = strstr(h->head, "\r\n"); line && line[2]; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, size) == 0 && line[2 + size] == ':') {
            const char *value = line + 3 + size;
            while (*value == ' ') value++;
            return value;
        }
    }
    return NULL;
}

static inline void http_read_framing(struct http *h) {
    const char *value;
    if (h->kind == HTTP_RESPONSE) {
        const char *space = strchr(h->head, ' ');
        h->status = space ? atoi(space + 1) : 0;
        if (h->status >= 100 && h->status < 200) { /* a 1xx response precedes the final one */
            h->head_size = 0;
            return;
        }
    }
    value = http_header(h, "connection");
    h->close = value && strncasecmp(value, "close", 5) == 0;
    value = http_header(h, "transfer-encoding");
    if (value && strncasecmp(value, "chunked", 7) == 0) {
        h->state = HTTP_SIZE;
        return;
    }
    value = http_header(h, "content-length");
    if (value) {
        h->left = strtoull(value, NULL, 10);
        h->state = h->left ? HTTP_FIXED : HTTP_DONE;
    } else {
        h->state = h->kind == HTTP_REQUEST ? HTTP_DONE : HTTP_UNTIL_CLOSE;
    }
}

static inline size_t http_feed_head(struct http *h, const char *bytes, size_t size) {
    size_t before = h->head_size, room = sizeof h->head - 1 - before, taken = size < room ? size : room;
    memcpy(h->head + before, bytes, taken);
    h->head_size += taken;
    char *end = memmem(h->head + (before > 3 ? before - 3 : 0), h->head_size - (before > 3 ? before - 3 : 0), "\r\n\r\n", 4);
    if (!end) {
        if (taken == room) h->state = HTTP_BROKEN;
        return taken;
    }
    size_t head = (size_t)(end - h->head) + 4;
    h->head_size = head;
    h->head[head - 2] = 0; /* the last header line keeps its line end, so that http_header needs no special case */
    http_read_framing(h);
    return head - before;
}

/* Reads one message and returns the number of bytes read; stops at HTTP_DONE or HTTP_BROKEN, before the next message. */
static inline size_t http_feed(struct http *h, const char *bytes, size_t size, http_body body, void *owner) {
    size_t at = 0;
    while (at < size && h->state != HTTP_DONE && h->state != HTTP_BROKEN) {
        size_t rest = size - at;
        switch (h->state) {
        case HTTP_HEAD:
            at += http_feed_head(h, bytes + at, rest);
            break;
        case HTTP_FIXED:
        case HTTP_CHUNK: {
            size_t taken = rest < h->left ? rest : (size_t)h->left;
            body(owner, bytes + at, taken);
            at += taken;
            h->left -= taken;
            if (!h->left) h->state = h->state == HTTP_FIXED ? HTTP_DONE : HTTP_CHUNK_END;
            break;
        }
        case HTTP_UNTIL_CLOSE:
            body(owner, bytes + at, rest);
            at = size;
            break;
        default: { /* a line: a chunk's size, the line end after a chunk, or a trailer */
            char c = bytes[at++];
            if (c != '\n') {
                if (c != '\r' && h->line_size < sizeof h->line - 1) h->line[h->line_size++] = c;
                break;
            }
            h->line[h->line_size] = 0;
            if (h->state == HTTP_SIZE) {
                h->left = strtoull(h->line, NULL, 16);
                h->state = h->left ? HTTP_CHUNK : HTTP_TRAILER;
                if (!h->line_size) h->state = HTTP_BROKEN;
            } else if (h->state == HTTP_CHUNK_END) {
                h->state = HTTP_SIZE;
            } else if (!h->line_size) {
                h->state = HTTP_DONE;
            }
            h->line_size = 0;
        }
        }
    }
    return at;
}

#endif
