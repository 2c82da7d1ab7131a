// SPDX-License-Identifier: Apache-2.0
/* Spans: rows in, spans and their mixes out; converts arguments. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <sys/random.h>

#include "bindings.h"
#include "spans.h"

struct spans_object {
	PyObject_HEAD
	struct spans spans;
};

static PyObject *spans_add(struct spans_object *self, PyObject *args)
{
	Py_buffer signatures, columns[7];
	struct rows rows;
	unsigned long long now_ns;
	int error = -1, fits;

	if (!PyArg_ParseTuple(args, "Ky*y*y*y*y*y*y*y*", &now_ns, &signatures, &columns[0],
			      &columns[1], &columns[2], &columns[3], &columns[4], &columns[5],
			      &columns[6]))
		return NULL;
	rows = (struct rows){signatures.buf, columns[0].buf, columns[1].buf, columns[2].buf,
			     columns[3].buf, columns[4].buf, columns[5].buf, columns[6].buf,
			     columns[0].len / sizeof(int32_t), signatures.len / sizeof(struct signature)};
	fits = 1;
	for (int i = 1; i < 7; i++)
		fits &= (size_t)columns[i].len == rows.count * sizeof(uint64_t);
	if (fits) {
		Py_BEGIN_ALLOW_THREADS
		self->spans.now_ns = now_ns;
		error = rows_add(&self->spans, &rows);
		Py_END_ALLOW_THREADS
	}
	PyBuffer_Release(&signatures);
	for (int i = 0; i < 7; i++)
		PyBuffer_Release(&columns[i]);
	if (!fits)
		return PyErr_Format(PyExc_ValueError, "columns differ in length");
	if (error)
		return PyErr_NoMemory();
	Py_RETURN_NONE;
}

static PyObject *spans_gone(struct spans_object *self, PyObject *args)
{
	unsigned long long now_ns, start_ns;
	long long ended_ns;
	unsigned int pid;

	if (!PyArg_ParseTuple(args, "KIKL", &now_ns, &pid, &start_ns, &ended_ns))
		return NULL;
	for (uint32_t side = 0; side < 2; side++) {
		struct process *process = process_find(&self->spans, pid, start_ns, side);

		if (!process || process->gone_ns)
			continue;
		process->gone_ns = now_ns;
		process->ended_ns = ended_ns;
	}
	Py_RETURN_NONE;
}

static PyObject *spans_begin(struct spans_object *self, PyObject *args)
{
	long long boundary_ns;

	if (!PyArg_ParseTuple(args, "L", &boundary_ns))
		return NULL;
	self->spans.boundary_ns = boundary_ns;
	Py_RETURN_NONE;
}

static PyObject *taken(struct buffer *buffer)
{
	PyObject *bytes = PyBytes_FromStringAndSize((const char *)buffer->bytes, buffer->used);

	buffer->used = 0;
	return bytes;
}

/* Items that were not told before. */
static PyObject *new_items(struct spans *spans)
{
	struct buffer told = {0};
	PyObject *bytes;

	for (; spans->told_items < spans->nitems; spans->told_items++) {
		const struct item *item = spans->by_number[spans->told_items];
		struct {
			uint64_t name;
			int64_t size;
			uint64_t sized;
		} known = {item->name, item->size, !!(item->flags & SIG_SIZED)};

		if (buffer_add(&told, &known, sizeof(known))) {
			free(told.bytes);
			return PyErr_NoMemory();
		}
	}
	bytes = taken(&told);
	free(told.bytes);
	return bytes;
}

static PyObject *spans_take(struct spans_object *self, PyObject *args)
{
	struct spans *spans = &self->spans;
	unsigned long long now_ns;
	long long utc_ns;
	PyObject *told;
	int stopping, error;

	if (!PyArg_ParseTuple(args, "KLp", &now_ns, &utc_ns, &stopping))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	spans->now_ns = now_ns;
	spans->utc_ns = utc_ns;
	error = spans_close(spans, stopping);
	Py_END_ALLOW_THREADS
	if (error)
		return PyErr_NoMemory();
	told = Py_BuildValue("(KNNNNN)", (unsigned long long)spans->epoch, taken(&spans->closed),
			     taken(&spans->open), new_items(spans), taken(&spans->mix_sizes),
			     taken(&spans->mix_items));
	/* What was told is complete; so is what follows, under new numbers. */
	if (told && spans_crowded(spans) && items_renew(spans)) {
		Py_DECREF(told);
		return PyErr_NoMemory();
	}
	return told;
}

static PyObject *spans_renew(struct spans_object *self, PyObject *unused)
{
	if (items_renew(&self->spans))
		return PyErr_NoMemory();
	Py_RETURN_NONE;
}

static PyObject *told_by(struct spans *spans, int (*take)(struct spans *, struct buffer *))
{
	struct buffer told = {0};
	PyObject *bytes = NULL;

	if (take(spans, &told))
		PyErr_NoMemory();
	else
		bytes = taken(&told);
	free(told.bytes);
	return bytes;
}

static PyObject *spans_seconds(struct spans_object *self, PyObject *unused)
{
	return told_by(&self->spans, seconds_take);
}

static PyObject *spans_refused(struct spans_object *self, PyObject *unused)
{
	return told_by(&self->spans, tenants_take);
}

static PyObject *spans_oldest(struct spans_object *self, PyObject *unused)
{
	return PyLong_FromLongLong(queues_oldest(&self->spans));
}

static PyObject *spans_counts(struct spans_object *self, PyObject *unused)
{
	return Py_BuildValue("{sKsIsIsK}", "held", (unsigned long long)self->spans.held, "queues",
			     self->spans.queues.count, "items", self->spans.nitems, "refused",
			     (unsigned long long)self->spans.refused);
}

static int spans_init(struct spans_object *self, PyObject *args)
{
	unsigned long long settle_ns, hold_ns;

	if (!PyArg_ParseTuple(args, "KK", &settle_ns, &hold_ns))
		return -1;
	self->spans.settle_ns = settle_ns;
	self->spans.hold_ns = hold_ns;
	if (getrandom(self->spans.seed, sizeof(self->spans.seed), 0) < 0) {
		PyErr_SetFromErrno(PyExc_OSError);
		return -1;
	}
	return 0;
}

static void spans_dealloc(struct spans_object *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	spans_free(&self->spans);
	release(self);
	Py_DECREF(type);
}

static PyMethodDef methods[] = {
	{"begin", (PyCFunction)spans_begin, METH_VARARGS,
	 "begin(boundary_ns): what began before is of another recording"},
	{"add", (PyCFunction)spans_add, METH_VARARGS,
	 "add(now_ns, signatures, codes, began_ns, took_ns, bytes, names, seen_ns, weights): rows as they came"},
	{"gone", (PyCFunction)spans_gone, METH_VARARGS,
	 "gone(now_ns, pid, start_ns, ended_ns): a process ended"},
	{"take", (PyCFunction)spans_take, METH_VARARGS,
	 "take(now_ns, utc_ns, stopping) -> (epoch, closed, open, items, mix sizes, mix items)"},
	{"seconds", (PyCFunction)spans_seconds, METH_NOARGS,
	 "what each tenant did in each second on each GPU, since it was last asked"},
	{"refused", (PyCFunction)spans_refused, METH_NOARGS,
	 "operations that there was no room for since it was last asked, by tenant"},
	{"oldest", (PyCFunction)spans_oldest, METH_NOARGS,
	 "when the oldest operation began that is in no span yet"},
	{"renew", (PyCFunction)spans_renew, METH_NOARGS,
	 "after take(): forget every mix, to tell it again when it is used again"},
	{"counts", (PyCFunction)spans_counts, METH_NOARGS, "what is held, and what was refused"},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_init, spans_init},
	{Py_tp_dealloc, spans_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_doc, "Spans of work on GPU streams, made of rows as they come."},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "cotenant._native._drain.Spans",
	.basicsize = sizeof(struct spans_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int binding_add_spans(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&spec);
	int error = type ? PyModule_AddObjectRef(module, "Spans", type) : -1;

	Py_XDECREF(type);
	return error;
}
