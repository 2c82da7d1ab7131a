// SPDX-License-Identifier: Apache-2.0
/* Ring: one BPF ring buffer, read as columns (rows) or as bytes (facts). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "drain.h"
#include "bindings.h"

struct ring_object {
	PyObject_HEAD
	struct ring ring;
	struct columns kinds[KINDS_MAX];
	uint64_t secrets[SECRETS];
	uint32_t kind_offset;
	uint64_t strays;	/* records of a kind nobody asked for, or too short */
};

static int parse_part(PyObject *pair, struct part *part)
{
	return PyArg_ParseTuple(pair, "II", &part->offset, &part->width) ? 0 : -1;
}

static void reach(struct columns *columns, const struct part *part)
{
	if (part->offset + part->width > columns->record_size)
		columns->record_size = part->offset + part->width;
}

static int parse_key(PyObject *parts, struct columns *columns, struct key *key)
{
	Py_ssize_t count = PyList_Size(parts);

	if (count < 1 || count > KEY_PARTS_MAX) {
		PyErr_SetString(PyExc_ValueError, "a key has 1 to 32 parts");
		return -1;
	}
	for (Py_ssize_t i = 0; i < count; i++) {
		if (parse_part(PyList_GetItem(parts, i), &key->parts[i]))
			return -1;
		key->width += key->parts[i].width;
		reach(columns, &key->parts[i]);
	}
	key->nparts = count;
	key->width = (key->width + 7) & ~7U;
	if (key->width <= KEY_BYTES_MAX)
		return 0;
	PyErr_SetString(PyExc_ValueError, "a key has at most 256 bytes");
	return -1;
}

static int parse_columns(struct columns *columns, PyObject *plain, PyObject *keys,
			 const uint64_t *secrets)
{
	columns->nplain = PyList_Size(plain);
	columns->nkeys = PyList_Size(keys);
	columns->plain = calloc(columns->nplain + 1, sizeof(*columns->plain));
	columns->plain_data = calloc(columns->nplain + 1, sizeof(*columns->plain_data));
	columns->keys = calloc(columns->nkeys + 1, sizeof(*columns->keys));
	if (!columns->plain || !columns->plain_data || !columns->keys) {
		PyErr_NoMemory();
		return -1;
	}
	for (uint32_t i = 0; i < columns->nplain; i++) {
		if (parse_part(PyList_GetItem(plain, i), &columns->plain[i]))
			return -1;
		reach(columns, &columns->plain[i]);
	}
	for (uint32_t i = 0; i < columns->nkeys; i++) {
		columns->keys[i].secrets = secrets;
		if (parse_key(PyList_GetItem(keys, i), columns, &columns->keys[i]))
			return -1;
	}
	return 0;
}

static PyObject *ring_expect(struct ring_object *self, PyObject *args)
{
	PyObject *plain, *keys;
	unsigned int kind;

	if (!PyArg_ParseTuple(args, "IO!O!", &kind, &PyList_Type, &plain, &PyList_Type, &keys))
		return NULL;
	if (kind >= KINDS_MAX)
		return PyErr_Format(PyExc_ValueError, "kind %u is out of range", kind);
	columns_free(&self->kinds[kind]);
	if (parse_columns(&self->kinds[kind], plain, keys, self->secrets)) {
		columns_free(&self->kinds[kind]);
		return NULL;
	}
	Py_RETURN_NONE;
}

static PyObject *ring_position(struct ring_object *self, PyObject *unused)
{
	return PyLong_FromUnsignedLongLong(ring_produced(&self->ring));
}

static PyObject *ring_waiting(struct ring_object *self, PyObject *unused)
{
	return PyLong_FromUnsignedLongLong(ring_produced(&self->ring) -
					   ring_consumed(&self->ring));
}

static int sort_out(struct ring_object *self, const uint8_t *record, uint32_t length)
{
	uint16_t kind = KINDS_MAX;

	if (length >= self->kind_offset + sizeof(kind))
		memcpy(&kind, record + self->kind_offset, sizeof(kind));
	if (kind >= KINDS_MAX || !self->kinds[kind].record_size ||
	    length < self->kinds[kind].record_size) {
		self->strays++;
		return 0;
	}
	return columns_add(&self->kinds[kind], record, length);
}

/* How often the space is given back while draining: producers must not wait for the end. */
#define RELEASE_EVERY 65536

static PyObject *ring_drain(struct ring_object *self, PyObject *args)
{
	uint64_t start, position, released, step, release_every;
	unsigned long long limit;
	const uint8_t *record;
	uint32_t length;
	int failed = 0;

	if (!PyArg_ParseTuple(args, "K", &limit))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	release_every = self->ring.size / 8 < RELEASE_EVERY ? self->ring.size / 8 : RELEASE_EVERY;
	start = position = released = ring_consumed(&self->ring);
	for (;;) {
		step = 0;
		record = ring_next(&self->ring, position, limit, &length, &step);
		if (record && sort_out(self, record, length)) {
			failed = 1;
			break;
		}
		position += step;
		if (!record)
			break;
		if (position - released >= release_every) {
			ring_release(&self->ring, position);
			released = position;
		}
	}
	ring_release(&self->ring, position);
	Py_END_ALLOW_THREADS
	if (failed)
		return PyErr_NoMemory();
	return PyLong_FromUnsignedLongLong(position - start);
}

static PyObject *ring_records(struct ring_object *self, PyObject *unused)
{
	uint64_t position = ring_consumed(&self->ring);
	uint64_t limit = ring_produced(&self->ring);
	PyObject *list = PyList_New(0);
	const uint8_t *record;
	uint64_t step;
	uint32_t length;

	if (!list)
		return NULL;
	for (;;) {
		PyObject *bytes;

		step = 0;
		record = ring_next(&self->ring, position, limit, &length, &step);
		position += step;
		if (!record)
			break;
		bytes = PyBytes_FromStringAndSize((const char *)record, length);
		if (!bytes || PyList_Append(list, bytes)) {
			Py_XDECREF(bytes);
			Py_DECREF(list);
			return NULL;
		}
		Py_DECREF(bytes);
		ring_release(&self->ring, position);
	}
	ring_release(&self->ring, position);
	return list;
}

/* Part of a ring that may fill before it is drained. */
#define WAITING_PART 256
#define RINGS_MAX 8

static int has_much(const struct ring *ring)
{
	return ring_produced(ring) - ring_consumed(ring) >= ring->size / WAITING_PART;
}

static PyObject *ring_pause(struct ring_object *self, PyObject *args)
{
	struct pollfd stop = {.events = POLLIN};
	const struct ring *rings[RINGS_MAX];
	int milliseconds, times, full = 0;
	PyObject *others;
	Py_ssize_t count;

	if (!PyArg_ParseTuple(args, "O!iii", &PyTuple_Type, &others, &stop.fd, &milliseconds,
			      &times))
		return NULL;
	count = PyTuple_Size(others);
	if (count >= RINGS_MAX)
		return PyErr_Format(PyExc_ValueError, "too many rings");
	for (Py_ssize_t i = 0; i < count; i++) {
		PyObject *other = PyTuple_GetItem(others, i);

		if (Py_TYPE(other) != Py_TYPE((PyObject *)self))
			return PyErr_Format(PyExc_TypeError, "not a ring");
		rings[i] = &((struct ring_object *)other)->ring;
	}
	rings[count++] = &self->ring;
	Py_BEGIN_ALLOW_THREADS
	while (times-- > 0 && !full && !poll(&stop, 1, milliseconds))
		for (Py_ssize_t i = 0; i < count; i++)
			full |= has_much(rings[i]);
	Py_END_ALLOW_THREADS
	Py_RETURN_NONE;
}

static PyObject *bytes_of(const struct buffer *buffer)
{
	return PyBytes_FromStringAndSize((const char *)buffer->bytes, buffer->used);
}

static int append(PyObject *list, PyObject *item)
{
	int error = item ? PyList_Append(list, item) : -1;

	Py_XDECREF(item);
	return error;
}

static PyObject *ring_take(struct ring_object *self, PyObject *args)
{
	struct columns *columns;
	PyObject *plain, *keys;
	unsigned int kind;
	uint64_t rows;

	if (!PyArg_ParseTuple(args, "I", &kind))
		return NULL;
	if (kind >= KINDS_MAX)
		return PyErr_Format(PyExc_ValueError, "kind %u is out of range", kind);
	columns = &self->kinds[kind];
	plain = PyList_New(0);
	keys = PyList_New(0);
	if (!plain || !keys)
		goto failed;
	for (uint32_t i = 0; i < columns->nplain; i++)
		if (append(plain, bytes_of(&columns->plain_data[i])))
			goto failed;
	for (uint32_t i = 0; i < columns->nkeys; i++)
		if (append(keys, Py_BuildValue("(NN)", bytes_of(&columns->keys[i].codes),
					       bytes_of(&columns->keys[i].values))))
			goto failed;
	rows = columns->rows;
	columns_reset(columns);
	return Py_BuildValue("(KNN)", (unsigned long long)rows, plain, keys);
failed:
	Py_XDECREF(plain);
	Py_XDECREF(keys);
	return NULL;
}

static PyObject *ring_strays(struct ring_object *self, PyObject *unused)
{
	return PyLong_FromUnsignedLongLong(self->strays);
}

static int ring_init(struct ring_object *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"fd", "size", "kind_offset", NULL};
	unsigned long long size;
	int fd, error;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iKI", names, &fd, &size, &self->kind_offset))
		return -1;
	if (getrandom(self->secrets, sizeof(self->secrets), 0) < 0) {
		PyErr_SetFromErrno(PyExc_OSError);
		return -1;
	}
	error = ring_map(&self->ring, fd, size);
	if (!error)
		return 0;
	errno = -error;
	PyErr_SetFromErrno(PyExc_OSError);
	return -1;
}

static void ring_dealloc(struct ring_object *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	for (int i = 0; i < KINDS_MAX; i++)
		columns_free(&self->kinds[i]);
	ring_unmap(&self->ring);
	release(self);
	Py_DECREF(type);
}

static PyMethodDef methods[] = {
	{"expect", (PyCFunction)ring_expect, METH_VARARGS,
	 "expect(kind, plain, keys): which parts of records of this kind become columns"},
	{"position", (PyCFunction)ring_position, METH_NOARGS, "where producers are now"},
	{"waiting", (PyCFunction)ring_waiting, METH_NOARGS, "bytes not yet drained"},
	{"drain", (PyCFunction)ring_drain, METH_VARARGS,
	 "drain(limit): records below this position into columns; the bytes consumed"},
	{"take", (PyCFunction)ring_take, METH_VARARGS,
	 "take(kind) -> (rows, plain columns, [(codes, distinct values)])"},
	{"records", (PyCFunction)ring_records, METH_NOARGS, "all records there are, as bytes"},
	{"pause", (PyCFunction)ring_pause, METH_VARARGS,
	 "pause(others, stop, milliseconds, times): wait so often; no more once a part of this "
	 "ring's or another one's room is waiting, or `stop` can be read"},
	{"strays", (PyCFunction)ring_strays, METH_NOARGS, "records that fitted no kind"},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_init, ring_init},
	{Py_tp_dealloc, ring_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_doc, "A BPF ring buffer, drained without a callback per record."},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "cotenant._native._drain.Ring",
	.basicsize = sizeof(struct ring_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int binding_add_types(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&spec);
	int error = type ? PyModule_AddObjectRef(module, "Ring", type) : -1;

	Py_XDECREF(type);
	return error;
}
