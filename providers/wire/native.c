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

static PyMethodDef methods[] = {
    {"relay", (PyCFunction)(void (*)(void))relay, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "native", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_native(void)
{
    return PyModuleDef_Init(&definition);
}
