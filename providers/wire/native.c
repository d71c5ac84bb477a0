/* Pure functions on bytes, for what is done with each request and each chunk. See __init__.py, which has their contracts,
 * and twin.py, which has the same functions in Python: both give the same results, for any bytes.
 *
 * Each returns None whenever it is not sure: then the usual road decides. Nothing is kept between two calls; what is read is
 * bounded by its length, and what is longer than MOST_BYTES is not read at all.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <string.h>

#define MOST_BYTES 32768
#define MOST_EVENTS 128

typedef const unsigned char *at;

/* A text that was given as bytes. */
typedef struct {
    at start;
    Py_ssize_t size;
} text;

static int read_text(PyObject *object, text *found)
{
    char *start;
    if (PyBytes_AsStringAndSize(object, &start, &found->size) < 0)
        return 0;
    found->start = (at)start;
    return 1;
}

static at find(at p, at end, const char *what, size_t size)
{
    while ((size_t)(end - p) >= size) {
        p = memchr(p, what[0], (size_t)(end - p) - size + 1);
        if (p == NULL)
            return NULL;
        if (memcmp(p, what, size) == 0)
            return p;
        p++;
    }
    return NULL;
}

#define STARTS(p, end, literal) ((size_t)((end) - (p)) >= sizeof(literal) - 1 && memcmp((p), (literal), sizeof(literal) - 1) == 0)

/* JSON: as much of it as a usual chunk has. At most one space follows a colon or a comma. */

static at skip_space(at p, at end)
{
    return p < end && *p == ' ' ? p + 1 : p;
}

static int hex_digit(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* The value of four hexadecimal digits; -1: these are none. */
static long hex4(at p, at end)
{
    long value = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(p[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* The length of a character of UTF-8 that begins at p, whose first byte is at least 0x80; 0: it is none. */
static int utf8_length(at p, at end)
{
    unsigned char c = *p;
    if (c >= 0xC2 && c <= 0xDF)
        return end - p >= 2 && (p[1] & 0xC0) == 0x80 ? 2 : 0;
    if (c >= 0xE0 && c <= 0xEF) {
        if (end - p < 3 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80)
            return 0;
        if ((c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F))
            return 0;
        return 3;
    }
    if (c >= 0xF0 && c <= 0xF4) {
        if (end - p < 4 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80 || (p[3] & 0xC0) != 0x80)
            return 0;
        if ((c == 0xF0 && p[1] < 0x90) || (c == 0xF4 && p[1] > 0x8F))
            return 0;
        return 4;
    }
    return 0;
}

/* The end of the string that begins at p; NULL: it is none, or no text. `size` grows by its bytes in UTF-8, unescaped. */
static at skip_string(at p, at end, Py_ssize_t *size)
{
    Py_ssize_t bytes = 0;
    if (p >= end || *p != '"')
        return NULL;
    p++;
    while (p < end) {
        unsigned char c = *p;
        if (c == '"') {
            *size += bytes;
            return p + 1;
        }
        if (c < 0x20)
            return NULL;
        if (c >= 0x80) {
            int length = utf8_length(p, end);
            if (length == 0)
                return NULL;
            p += length;
            bytes += length;
        } else if (c != '\\') {
            p++;
            bytes++;
        } else {
            if (end - p < 2)
                return NULL;
            c = p[1];
            if (c == 'u') {
                long code = hex4(p + 2, end);
                if (code < 0 || (code >= 0xDC00 && code <= 0xDFFF))
                    return NULL;
                p += 6;
                if (code >= 0xD800 && code <= 0xDBFF) {
                    long low = end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2, end) : -1;
                    if (low < 0xDC00 || low > 0xDFFF)
                        return NULL;
                    p += 6;
                    bytes += 4;
                } else
                    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
            } else {
                if (c == 0 || strchr("\"\\/bfnrt", c) == NULL)
                    return NULL;
                p += 2;
                bytes++;
            }
        }
    }
    return NULL;
}

/* A key at p and its colon: `key` becomes what is between the quotes. Returns where the value begins, or NULL. */
static at read_key(at p, at end, text *key)
{
    at start;
    if (p >= end || *p != '"')
        return NULL;
    start = ++p;
    while (p < end && ((*p >= 'a' && *p <= 'z') || *p == '_'))
        p++;
    if (p == start || p - start > 40 || !STARTS(p, end, "\":"))
        return NULL;
    key->start = start;
    key->size = p - start;
    return skip_space(p + 2, end);
}

static int is_key(const text *key, const char *name)
{
    size_t size = strlen(name);
    return (size_t)key->size == size && memcmp(key->start, name, size) == 0;
}

/* Behind a member: 1 and the next one's start, 0 and the end of the object, or -1. */
static int next_member(at *p, at end)
{
    if (*p >= end)
        return -1;
    if (**p == ',') {
        *p = skip_space(*p + 1, end);
        return 1;
    }
    if (**p == '}') {
        (*p)++;
        return 0;
    }
    return -1;
}

/* A delta that holds texts and nulls: its end, or NULL. */
static at skip_delta(at p, at end, Py_ssize_t *written)
{
    int more;
    if (p >= end || *p != '{')
        return NULL;
    p++;
    if (p < end && *p == '}')
        return p + 1;
    do {
        text key;
        p = read_key(p, end, &key);
        if (p == NULL || is_key(&key, "text") || is_key(&key, "reasoning") || is_key(&key, "reasoning_details"))
            return NULL;
        if (STARTS(p, end, "null"))
            p += 4;
        else {
            if (!is_key(&key, "content") && !is_key(&key, "reasoning_content") && !is_key(&key, "refusal"))
                return NULL;
            p = skip_string(p, end, written);
            if (p == NULL)
                return NULL;
        }
        more = next_member(&p, end);
    } while (more == 1);
    return more < 0 ? NULL : p;
}

/* The choices of a chunk: one, with an index, that goes on. Returns whether they are that, to the very end. */
static int are_plain_choices(at p, at end, int is_chat, Py_ssize_t *written)
{
    int more, has_index = 0, has_delta = 0, has_text = 0;
    p = skip_space(p, end);
    if (!STARTS(p, end, "[{"))
        return 0;
    p += 2;
    do {
        text key;
        p = read_key(p, end, &key);
        if (p == NULL)
            return 0;
        if (is_key(&key, "index")) {
            at start = p;
            while (p < end && *p >= '0' && *p <= '9')
                p++;
            if (has_index++ || p == start || p - start > 4 || (*start == '0' && p - start > 1))
                return 0;
        } else if (is_key(&key, "delta")) {
            if (has_delta++ || !is_chat)
                return 0;
            p = skip_delta(p, end, written);
            if (p == NULL)
                return 0;
        } else if (is_key(&key, "text")) {
            if (has_text++ || is_chat)
                return 0;
            p = skip_string(p, end, written);
            if (p == NULL)
                return 0;
        } else {
            if (is_key(&key, "error") || is_key(&key, "reasoning") || is_key(&key, "reasoning_details") || !STARTS(p, end, "null"))
                return 0;
            p += 4;
        }
        more = next_member(&p, end);
    } while (more == 1);
    return more == 0 && has_index && (is_chat ? has_delta : has_text) && end - p == 1 && *p == ']';
}

/* The content of the HTTP chunks that `data` consists of: into `content`, which has room for it. Returns its size, or -1. */
static Py_ssize_t read_chunks(const text *data, unsigned char *content)
{
    at p = data->start, end = data->start + data->size;
    Py_ssize_t total = 0;
    while (p < end) {
        Py_ssize_t size = 0;
        at start = p;
        for (; p < end && p - start < 5; p++) {
            int digit = hex_digit(*p);
            if (digit < 0)
                break;
            size = size * 16 + digit;
        }
        if (p == start || size == 0 || !STARTS(p, end, "\r\n"))
            return -1;
        p += 2;
        if (end - p < size + 2 || p[size] != '\r' || p[size + 1] != '\n')
            return -1;
        memcpy(content + total, p, (size_t)size);
        total += size;
        p += size + 2;
    }
    return total;
}

static PyObject *relay_content(const text *content, const text *before, const text *after, const text *prefix, int is_chat)
{
    text choices[MOST_EVENTS];
    int events = 0;
    Py_ssize_t written = 0, size = 0, rest_size;
    at p = content->start, end = content->start + content->size;
    for (;;) {
        at event_end = find(p, end, "\n\n", 2);
        if (event_end == NULL)
            break;
        if (events == MOST_EVENTS || event_end - p < 6 + before->size + after->size || memcmp(p, "data: ", 6) != 0)
            Py_RETURN_NONE;
        choices[events].start = p + 6 + before->size;
        choices[events].size = event_end - p - 6 - before->size - after->size;
        if (memcmp(p + 6, before->start, (size_t)before->size) != 0 ||
            memcmp(event_end - after->size, after->start, (size_t)after->size) != 0 ||
            !are_plain_choices(choices[events].start, choices[events].start + choices[events].size, is_chat, &written))
            Py_RETURN_NONE;
        size += prefix->size + choices[events].size + 3;
        events++;
        p = event_end + 2;
    }
    rest_size = end - p;
    if (memchr(p, '\n', (size_t)rest_size) != NULL || memchr(p, '\r', (size_t)rest_size) != NULL)
        Py_RETURN_NONE;

    char head[24];
    int head_size = events ? PyOS_snprintf(head, sizeof head, "%zx\r\n", (size_t)size) : 0;
    PyObject *framed = PyBytes_FromStringAndSize(NULL, events ? head_size + size + 2 : 0);
    PyObject *frames = PyBytes_FromStringAndSize(NULL, size);
    PyObject *rest = PyBytes_FromStringAndSize((const char *)p, rest_size);
    PyObject *written_bytes = PyLong_FromSsize_t(written);
    PyObject *relayed = NULL;
    if (framed != NULL && frames != NULL && rest != NULL && written_bytes != NULL) {
        char *to = PyBytes_AsString(frames);
        for (int i = 0; i < events; i++) {
            memcpy(to, prefix->start, (size_t)prefix->size);
            to += prefix->size;
            memcpy(to, choices[i].start, (size_t)choices[i].size);
            to += choices[i].size;
            memcpy(to, "}\n\n", 3);
            to += 3;
        }
        if (events) {
            to = PyBytes_AsString(framed);
            memcpy(to, head, (size_t)head_size);
            memcpy(to + head_size, PyBytes_AsString(frames), (size_t)size);
            memcpy(to + head_size + size, "\r\n", 2);
        }
        relayed = PyTuple_Pack(4, framed, frames, rest, written_bytes);
    }
    Py_XDECREF(framed);
    Py_XDECREF(frames);
    Py_XDECREF(rest);
    Py_XDECREF(written_bytes);
    return relayed;
}

static PyObject *relay(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    text data, rest, before, after, prefix;
    (void)module;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "relay() takes 6 arguments");
        return NULL;
    }
    if (!read_text(arguments[0], &data) || !read_text(arguments[1], &rest) || !read_text(arguments[2], &before) ||
        !read_text(arguments[3], &after) || !read_text(arguments[4], &prefix))
        return NULL;
    int is_chat = PyObject_IsTrue(arguments[5]);
    if (is_chat < 0)
        return NULL;
    if (data.size > MOST_BYTES || rest.size > MOST_BYTES || before.size > MOST_BYTES || after.size > MOST_BYTES ||
        prefix.size > MOST_BYTES)
        Py_RETURN_NONE;
    unsigned char *joined = PyMem_Malloc((size_t)(rest.size + data.size + 1));
    if (joined == NULL)
        return PyErr_NoMemory();
    memcpy(joined, rest.start, (size_t)rest.size);
    Py_ssize_t size = read_chunks(&data, joined + rest.size);
    PyObject *relayed;
    if (size < 0) {
        relayed = Py_None;
        Py_INCREF(relayed);
    } else {
        text content = {joined, rest.size + size};
        relayed = relay_content(&content, &before, &after, &prefix, is_chat);
    }
    PyMem_Free(joined);
    return relayed;
}

/* A whole answer of a chat, in compact JSON: one choice, of which its text is read over. */

#define MOST_ANSWER_BYTES 65536
#define PLAIN_NAME_BYTES 198

/* The end of a number without a sign, of so many digits at most; `value` becomes it. NULL: there is none. */
static at read_count(at p, at end, int most_digits, long long *value)
{
    at start = p;
    *value = 0;
    while (p < end && *p >= '0' && *p <= '9' && p - start <= most_digits)
        *value = *value * 10 + (*p++ - '0');
    return p == start || p - start > most_digits || (*start == '0' && p - start > 1) ? NULL : p;
}

static int is_plain(at p, Py_ssize_t size)
{
    if (size < 1 || size > PLAIN_NAME_BYTES)
        return 0;
    for (Py_ssize_t i = 0; i < size; i++)
        if (p[i] < 0x20 || p[i] > 0x7E || p[i] == '"' || p[i] == '\\')
            return 0;
    return 1;
}

/* The end of a string of printable ASCII without escapes; `found` becomes what is between its quotes. NULL: it is none. */
static at read_plain_string(at p, at end, text *found)
{
    at close = p < end && *p == '"' ? memchr(p + 1, '"', (size_t)(end - p - 1)) : NULL;
    if (close == NULL || !is_plain(p + 1, close - p - 1))
        return NULL;
    found->start = p + 1;
    found->size = close - p - 1;
    return close + 1;
}

/* As read_key() and next_member(), without a space. */
static at read_compact_key(at p, at end, text *key)
{
    at value = read_key(p, end, key);
    return value == NULL || value[-1] == ' ' ? NULL : value;
}

static int next_compact_member(at *p, at end)
{
    int more = next_member(p, end);
    return more == 1 && (*p)[-1] == ' ' ? -1 : more;
}

static at skip_literal(at p, at end, const char *literal, size_t size)
{
    return (size_t)(end - p) >= size && memcmp(p, literal, size) == 0 ? p + size : NULL;
}

#define SKIP(p, end, literal) skip_literal((p), (end), (literal), sizeof(literal) - 1)

static at skip_message(at p, at end)
{
    int more;
    Py_ssize_t size = 0;
    p = SKIP(p, end, "{");
    if (p == NULL)
        return NULL;
    do {
        text key;
        at value;
        p = read_compact_key(p, end, &key);
        if (p == NULL || is_key(&key, "text") || is_key(&key, "delta") || is_key(&key, "reasoning") || is_key(&key, "reasoning_details"))
            return NULL;
        if (is_key(&key, "role"))
            value = SKIP(p, end, "\"assistant\"");
        else if ((value = SKIP(p, end, "null")) == NULL) {
            if (is_key(&key, "content") || is_key(&key, "reasoning_content") || is_key(&key, "refusal"))
                value = skip_string(p, end, &size);
            else if (is_key(&key, "tool_calls") || is_key(&key, "annotations"))
                value = SKIP(p, end, "[]");
        }
        if (value == NULL)
            return NULL;
        p = value;
        more = next_compact_member(&p, end);
    } while (more == 1);
    return more < 0 ? NULL : p;
}

static at skip_choices(at p, at end, const char **finish_reason)
{
    int more, has_index = 0, has_message = 0, has_reason = 0;
    p = SKIP(p, end, "[{");
    if (p == NULL)
        return NULL;
    do {
        text key;
        at value;
        long long index;
        p = read_compact_key(p, end, &key);
        if (p == NULL)
            return NULL;
        if (is_key(&key, "index")) {
            has_index++;
            value = read_count(p, end, 4, &index);
        } else if (is_key(&key, "message")) {
            has_message++;
            value = skip_message(p, end);
        } else if (is_key(&key, "finish_reason")) {
            has_reason++;
            *finish_reason = "stop";
            if ((value = SKIP(p, end, "\"stop\"")) == NULL) {
                *finish_reason = "length";
                value = SKIP(p, end, "\"length\"");
            }
        } else if (is_key(&key, "text") || is_key(&key, "delta") || is_key(&key, "error") || is_key(&key, "reasoning") ||
                   is_key(&key, "reasoning_details"))
            return NULL;
        else
            value = SKIP(p, end, "null");
        if (value == NULL)
            return NULL;
        p = value;
        more = next_compact_member(&p, end);
    } while (more == 1);
    return more == 0 && has_index == 1 && has_message == 1 && has_reason == 1 ? SKIP(p, end, "]") : NULL;
}

static at skip_usage(at p, at end, long long *input, long long *output)
{
    int more, inputs = 0, outputs = 0, totals = 0;
    p = SKIP(p, end, "{");
    if (p == NULL)
        return NULL;
    do {
        text key;
        long long total;
        p = read_compact_key(p, end, &key);
        if (p == NULL)
            return NULL;
        if (is_key(&key, "prompt_tokens")) {
            inputs++;
            p = read_count(p, end, 9, input);
        } else if (is_key(&key, "completion_tokens")) {
            outputs++;
            p = read_count(p, end, 9, output);
        } else if (is_key(&key, "total_tokens")) {
            totals++;
            p = read_count(p, end, 9, &total);
        } else if (is_key(&key, "prompt_tokens_details") || is_key(&key, "completion_tokens_details"))
            p = SKIP(p, end, "null");
        else
            return NULL;
        if (p == NULL)
            return NULL;
        more = next_compact_member(&p, end);
    } while (more == 1);
    return more == 0 && inputs == 1 && outputs == 1 && totals == 1 && *input + *output > 0 ? p : NULL;
}

static void put(char **to, const void *bytes, Py_ssize_t size)
{
    memcpy(*to, bytes, (size_t)size);
    *to += size;
}

#define PUT(to, literal) put((to), (literal), (Py_ssize_t)sizeof(literal) - 1)

static PyObject *edit_chat(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    text raw, own[3]; /* id, episode and model */
    (void)module;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "edit_chat() takes 4 arguments");
        return NULL;
    }
    if (!read_text(arguments[0], &raw))
        return NULL;
    for (int i = 0; i < 3; i++) {
        if (!PyUnicode_Check(arguments[i + 1])) {
            PyErr_SetString(PyExc_TypeError, "edit_chat() takes bytes and three strings");
            return NULL;
        }
        own[i].start = (at)PyUnicode_AsUTF8AndSize(arguments[i + 1], &own[i].size);
        if (own[i].start == NULL) { /* half of a surrogate pair */
            PyErr_Clear();
            Py_RETURN_NONE;
        }
        if (!is_plain(own[i].start, own[i].size))
            Py_RETURN_NONE;
    }
    if (raw.size > MOST_ANSWER_BYTES)
        Py_RETURN_NONE;

    at p = raw.start, end = raw.start + raw.size;
    text id = {0}, model = {0}, none = {0};
    at fingerprint = NULL; /* the null in place of one */
    const char *finish_reason = NULL;
    long long input = 0, output = 0, created;
    int more, ids = 0, objects = 0, times = 0, models = 0, choices = 0, usages = 0, tiers = 0, fingerprints = 0;
    int logprobs = 0, token_ids = 0, transfers = 0;
    p = SKIP(p, end, "{");
    if (p == NULL)
        Py_RETURN_NONE;
    do {
        text key;
        at value = NULL;
        p = read_compact_key(p, end, &key);
        if (p == NULL)
            Py_RETURN_NONE;
        if (is_key(&key, "id")) {
            ids++;
            value = read_plain_string(p, end, &id);
        } else if (is_key(&key, "object")) {
            objects++;
            value = SKIP(p, end, "\"chat.completion\"");
        } else if (is_key(&key, "created")) {
            times++;
            value = read_count(p, end, 12, &created);
        } else if (is_key(&key, "model")) {
            models++;
            value = read_plain_string(p, end, &model);
        } else if (is_key(&key, "choices")) {
            choices++;
            value = skip_choices(p, end, &finish_reason);
        } else if (is_key(&key, "usage")) {
            usages++;
            value = skip_usage(p, end, &input, &output);
        } else if (is_key(&key, "service_tier")) {
            tiers++;
            value = SKIP(p, end, "null");
        } else if (is_key(&key, "system_fingerprint")) {
            fingerprints++;
            if ((value = SKIP(p, end, "null")) != NULL)
                fingerprint = p;
            else
                value = read_plain_string(p, end, &none);
        } else if ((is_key(&key, "prompt_logprobs") && !logprobs++) || (is_key(&key, "prompt_token_ids") && !token_ids++) ||
                   (is_key(&key, "kv_transfer_params") && !transfers++))
            value = SKIP(p, end, "null"); /* vLLM's */
        if (value == NULL)
            Py_RETURN_NONE;
        p = value;
        more = next_compact_member(&p, end);
    } while (more == 1);
    if (more < 0 || p != end || ids != 1 || objects != 1 || times != 1 || models != 1 || choices != 1 || usages != 1 || tiers > 1 ||
        fingerprints > 1)
        Py_RETURN_NONE;

    /* What is replaced, in the order in which it stands. */
    struct {
        at start, end, with;
        Py_ssize_t size;
    } edits[3] = {
        {id.start, id.start + id.size, own[0].start, own[0].size},
        {model.start, model.start + model.size, own[2].start, own[2].size},
        {fingerprint, fingerprint == NULL ? NULL : fingerprint + 4, (at) "\"\"", 2},
    };
    int edit_count = fingerprint == NULL ? 2 : 3;
    for (int i = 1; i < edit_count; i++)
        for (int j = i; j > 0 && edits[j].start < edits[j - 1].start; j--) {
            __typeof__(edits[0]) other = edits[j];
            edits[j] = edits[j - 1];
            edits[j - 1] = other;
        }
    Py_ssize_t size = raw.size + (Py_ssize_t)sizeof(",\"episode_id\":\"\"") - 1 + own[1].size;
    for (int i = 0; i < edit_count; i++)
        size += edits[i].size - (edits[i].end - edits[i].start);
    if (!fingerprints)
        size += (Py_ssize_t)sizeof(",\"system_fingerprint\":\"\"") - 1;
    if (!tiers)
        size += (Py_ssize_t)sizeof(",\"service_tier\":null") - 1;
    PyObject *edited = PyBytes_FromStringAndSize(NULL, size);
    if (edited == NULL)
        return NULL;
    char *to = PyBytes_AsString(edited);
    at from = raw.start;
    for (int i = 0; i < edit_count; i++) {
        put(&to, from, edits[i].start - from);
        put(&to, edits[i].with, edits[i].size);
        from = edits[i].end;
    }
    put(&to, from, end - 1 - from);
    PUT(&to, ",\"episode_id\":\"");
    put(&to, own[1].start, own[1].size);
    PUT(&to, "\"");
    if (!fingerprints)
        PUT(&to, ",\"system_fingerprint\":\"\"");
    if (!tiers)
        PUT(&to, ",\"service_tier\":null");
    PUT(&to, "}");
    return Py_BuildValue("(NLLss#)", edited, input, output, finish_reason, (const char *)model.start, model.size);
}

/* Counts in a whole body. The loops are such that a compiler makes them work on many bytes at once. */

#define AT_ONCE 255 /* so that a byte can hold the count */

static PyObject *count_structure(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    text raw;
    (void)module;
    if (count != 1) {
        PyErr_SetString(PyExc_TypeError, "count_structure() takes 1 argument");
        return NULL;
    }
    if (!read_text(arguments[0], &raw))
        return NULL;
    Py_ssize_t containers = 0, commas = 0;
    for (Py_ssize_t done = 0; done < raw.size; done += AT_ONCE) {
        at p = raw.start + done;
        Py_ssize_t size = raw.size - done < AT_ONCE ? raw.size - done : AT_ONCE;
        unsigned char opened = 0, separated = 0;
        for (Py_ssize_t i = 0; i < size; i++) {
            opened = (unsigned char)(opened + ((p[i] | 0x20) == '{')); /* or [, which is { without that bit */
            separated = (unsigned char)(separated + (p[i] == ','));
        }
        containers += opened;
        commas += separated;
    }
    return Py_BuildValue("(nn)", containers, commas);
}

#define LONG_NUMBER 300

static int is_in_number(unsigned char c)
{
    return ((unsigned char)(c - '0') < 10) | (c == '.');
}

static PyObject *count_number_marks(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    text raw;
    (void)module;
    if (count != 1) {
        PyErr_SetString(PyExc_TypeError, "count_number_marks() takes 1 argument");
        return NULL;
    }
    if (!read_text(arguments[0], &raw))
        return NULL;
    Py_ssize_t found = 0;
    for (Py_ssize_t done = 0; done < raw.size - 1; done += AT_ONCE) {
        at p = raw.start + done;
        Py_ssize_t size = raw.size - 1 - done < AT_ONCE ? raw.size - 1 - done : AT_ONCE;
        unsigned char exponents = 0;
        for (Py_ssize_t i = 0; i < size; i++)
            exponents = (unsigned char)(exponents + (is_in_number(p[i]) & ((p[i + 1] | 0x20) == 'e')));
        found += exponents;
    }
    /* Whoever has so many digits has one of them at each of these places. */
    for (Py_ssize_t i = LONG_NUMBER - 1; i < raw.size; i += LONG_NUMBER) {
        if (!is_in_number(raw.start[i]))
            continue;
        Py_ssize_t first = i, last = i;
        while (first > 0 && is_in_number(raw.start[first - 1]))
            first--;
        while (last + 1 < raw.size && is_in_number(raw.start[last + 1]))
            last++;
        found += (last - first + 1) / LONG_NUMBER;
        i = last;
    }
    return PyLong_FromSsize_t(found);
}

static PyObject *holds(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    text raw, part;
    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "holds() takes 3 arguments");
        return NULL;
    }
    if (!read_text(arguments[0], &raw) || !read_text(arguments[1], &part))
        return NULL;
    Py_ssize_t rarest = PyLong_AsSsize_t(arguments[2]);
    if (rarest == -1 && PyErr_Occurred())
        return NULL;
    if (rarest < 0 || rarest >= part.size) {
        PyErr_SetString(PyExc_ValueError, "holds() takes the place of a byte of the part");
        return NULL;
    }
    if (raw.size < part.size)
        Py_RETURN_FALSE;
    at p = raw.start + rarest, end = raw.start + raw.size - (part.size - 1 - rarest);
    while (p < end && (p = memchr(p, part.start[rarest], (size_t)(end - p))) != NULL) {
        if (memcmp(p - rarest, part.start, (size_t)part.size) == 0)
            Py_RETURN_TRUE;
        p++;
    }
    Py_RETURN_FALSE;
}

/* HTTP/1.1: a whole message that came in one read. */

#define MOST_HEAD_BYTES 16384
#define MOST_FIELDS 64
#define MOST_BODY_BYTES 1048576

static int is_token(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static int is_name(at p, Py_ssize_t size, const char *lower)
{
    if ((size_t)size != strlen(lower))
        return 0;
    for (Py_ssize_t i = 0; i < size; i++)
        if ((p[i] >= 'A' && p[i] <= 'Z' ? p[i] + 32 : p[i]) != (unsigned char)lower[i])
            return 0;
    return 1;
}

/* Adds a header field to the list. Returns whether that worked. */
static int add_field(PyObject *fields, const text *name, const text *value)
{
    PyObject *field = Py_BuildValue("(y#y#)", (const char *)name->start, name->size, (const char *)value->start, value->size);
    if (field == NULL)
        return 0;
    int failed = PyList_Append(fields, field);
    Py_DECREF(field);
    return failed == 0;
}

static PyObject *parse_response(PyObject *module, PyObject *argument)
{
    text data, reason;
    (void)module;
    if (!read_text(argument, &data))
        return NULL;
    at p = data.start, end = data.start + data.size;
    at head_end = find(p, data.size > MOST_HEAD_BYTES ? p + MOST_HEAD_BYTES : end, "\r\n\r\n", 4);
    if (head_end == NULL || !STARTS(p, head_end, "HTTP/1.1 "))
        Py_RETURN_NONE;
    p += 9;
    if (head_end - p < 5 || p[0] < '2' || p[0] > '5' || p[1] < '0' || p[1] > '9' || p[2] < '0' || p[2] > '9' || p[3] != ' ')
        Py_RETURN_NONE;
    int status = (p[0] - '0') * 100 + (p[1] - '0') * 10 + (p[2] - '0');
    if (status == 204 || status == 304)
        Py_RETURN_NONE;
    reason.start = p += 4;
    while (p < head_end && ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == ' '))
        p++;
    reason.size = p - reason.start;
    if (reason.size == 0 || p == head_end || *p != '\r' || p[1] != '\n')
        Py_RETURN_NONE;
    p += 2;

    PyObject *fields = PyList_New(0);
    if (fields == NULL)
        return NULL;
    long long length = -1;
    int count = 0;
    at lines_end = head_end + 2;
    while (p < lines_end) {
        text name, value;
        name.start = p;
        while (is_token(*p)) /* a line end is none */
            p++;
        name.size = p - name.start;
        if (name.size == 0 || p[0] != ':' || p[1] != ' ' || count++ == MOST_FIELDS)
            goto unsure;
        value.start = p += 2;
        while (*p >= 0x20 && *p <= 0x7E)
            p++;
        value.size = p - value.start;
        if (value.size == 0 || value.start[0] == ' ' || p[-1] == ' ' || p[0] != '\r' || p[1] != '\n')
            goto unsure;
        p += 2;
        if (is_name(name.start, name.size, "content-length")) {
            if (length >= 0 || read_count(value.start, value.start + value.size, 7, &length) != value.start + value.size)
                goto unsure;
        } else if (is_name(name.start, name.size, "connection")) {
            if (!is_name(value.start, value.size, "keep-alive"))
                goto unsure;
        } else if (is_name(name.start, name.size, "transfer-encoding") || is_name(name.start, name.size, "upgrade"))
            goto unsure;
        if (!add_field(fields, &name, &value)) {
            Py_DECREF(fields);
            return NULL;
        }
    }
    p = head_end + 4;
    if (length <= 0 || length > MOST_BODY_BYTES || end - p != length)
        goto unsure;
    return Py_BuildValue("(iy#Ny#)", status, (const char *)reason.start, reason.size, fields, (const char *)p, (Py_ssize_t)length);

unsure:
    Py_DECREF(fields);
    Py_RETURN_NONE;
}

static PyObject *parse_request(PyObject *module, PyObject *argument)
{
    text data, path;
    (void)module;
    if (!read_text(argument, &data))
        return NULL;
    at p = data.start, end = data.start + data.size;
    at head_end = find(p, data.size > MOST_HEAD_BYTES ? p + MOST_HEAD_BYTES : end, "\r\n\r\n", 4);
    if (head_end == NULL || !STARTS(p, head_end, "POST /"))
        Py_RETURN_NONE;
    path.start = p += 5;
    while (is_token(*p) || *p == '/' || *p == '.')
        p++;
    path.size = p - path.start;
    if (!STARTS(p, head_end, " HTTP/1.1") || p[9] != '\r' || p[10] != '\n')
        Py_RETURN_NONE;
    p += 11;

    PyObject *fields = PyList_New(0);
    if (fields == NULL)
        return NULL;
    long long length = -1;
    int count = 0, hosts = 0;
    char lower[64];
    at lines_end = head_end + 2;
    while (p < lines_end) {
        text name = {(at)lower, 0}, value;
        while (is_token(*p) && name.size < (Py_ssize_t)sizeof lower)
            lower[name.size++] = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p), p++;
        if (name.size == 0 || p[0] != ':' || p[1] != ' ' || count++ == MOST_FIELDS)
            goto unsure;
        value.start = p += 2;
        while (*p >= 0x20 && *p <= 0x7E)
            p++;
        value.size = p - value.start;
        if (value.size == 0 || value.start[0] == ' ' || p[-1] == ' ' || p[0] != '\r' || p[1] != '\n')
            goto unsure;
        p += 2;
        if (is_key(&name, "host"))
            hosts++;
        else if (is_key(&name, "content-length")) {
            if (length >= 0 || read_count(value.start, value.start + value.size, 7, &length) != value.start + value.size)
                goto unsure;
        } else if (is_key(&name, "connection")) {
            if (!is_name(value.start, value.size, "keep-alive"))
                goto unsure;
        } else if (is_key(&name, "transfer-encoding") || is_key(&name, "upgrade") || is_key(&name, "expect"))
            goto unsure;
        if (!add_field(fields, &name, &value)) {
            Py_DECREF(fields);
            return NULL;
        }
    }
    p = head_end + 4;
    if (hosts != 1 || length <= 0 || length > MOST_BODY_BYTES || end - p != length)
        goto unsure;
    return Py_BuildValue("(s#Ny#)", (const char *)path.start, path.size, fields, (const char *)p, (Py_ssize_t)length);

unsure:
    Py_DECREF(fields);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"parse_request", parse_request, METH_O, NULL},
    {"count_number_marks", (PyCFunction)(void (*)(void))count_number_marks, METH_FASTCALL, NULL},
    {"count_structure", (PyCFunction)(void (*)(void))count_structure, METH_FASTCALL, NULL},
    {"edit_chat", (PyCFunction)(void (*)(void))edit_chat, METH_FASTCALL, NULL},
    {"holds", (PyCFunction)(void (*)(void))holds, METH_FASTCALL, NULL},
    {"relay", (PyCFunction)(void (*)(void))relay, METH_FASTCALL, NULL},
    {"parse_response", parse_response, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

/* Of this file, as it was compiled: build.py sets it. */
#ifndef SOURCE_CRC
#define SOURCE_CRC 0
#endif

static int add_constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "source_crc", SOURCE_CRC);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)add_constants}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "native", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_native(void)
{
    return PyModuleDef_Init(&definition);
}
