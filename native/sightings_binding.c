// SPDX-License-Identifier: Apache-2.0
/* Sightings: perf's buffers of all CPUs, read as those records that are not settled. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <string.h>

#include "bindings.h"
#include "sightings.h"

struct sightings_object {
	PyObject_HEAD
	struct sightings all;
};

static PyObject *failed(int error)
{
	errno = -error;
	return PyErr_SetFromErrno(PyExc_OSError);
}

static int sightings_init(struct sightings_object *self, PyObject *args, PyObject *kwargs)
{
	int error = sightings_begin(&self->all);

	if (error)
		failed(error);
	return error ? -1 : 0;
}

static void sightings_dealloc(struct sightings_object *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	sightings_end(&self->all);
	release(self);
	Py_DECREF(type);
}

static PyObject *open_buffer(struct sightings_object *self, PyObject *args)
{
	unsigned long long size;
	int fd, error;

	if (!PyArg_ParseTuple(args, "iK", &fd, &size))
		return NULL;
	error = sightings_open(&self->all, fd, size);
	if (error)
		return failed(error);
	Py_RETURN_NONE;
}

static PyObject *follow(struct sightings_object *self, PyObject *args)
{
	int news, error;

	if (!PyArg_ParseTuple(args, "ii", &news, &self->all.settled_fd))
		return NULL;
	error = ring_map(&self->all.news, news, SIGHTINGS_RING_BYTES);
	if (error)
		return failed(error);
	Py_RETURN_NONE;
}

static PyObject *list_passed(const struct buffer *buffer)
{
	PyObject *list = PyList_New(0);
	struct passed passed;

	for (size_t at = 0; list && at < buffer->used; at += sizeof(passed) + passed.size) {
		const char *record = (const char *)buffer->bytes + at + sizeof(passed);
		PyObject *item;
		int error;

		memcpy(&passed, buffer->bytes + at, sizeof(passed));
		item = Py_BuildValue("(Ky#)", (unsigned long long)passed.mark, record,
				     (Py_ssize_t)passed.size);
		error = item ? PyList_Append(list, item) : -1;
		Py_XDECREF(item);
		if (error)
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *read_all(struct sightings_object *self, PyObject *unused)
{
	PyObject *list;
	int error;

	Py_BEGIN_ALLOW_THREADS
	error = sightings_read(&self->all);
	Py_END_ALLOW_THREADS
	if (error)
		return PyErr_NoMemory();
	list = list_passed(&self->all.passed);
	self->all.passed.used = 0;
	buffer_shrink(&self->all.passed);
	return list;
}

static PyObject *take_lost(struct sightings_object *self, PyObject *unused)
{
	uint64_t lost = self->all.lost;

	self->all.lost = 0;
	return PyLong_FromUnsignedLongLong(lost);
}

static PyObject *taken(struct sightings_object *self, PyObject *unused)
{
	return PyLong_FromUnsignedLongLong(self->all.taken);
}

static PyObject *settle(struct sightings_object *self, PyObject *args)
{
	unsigned long long mark;

	if (!PyArg_ParseTuple(args, "K", &mark))
		return NULL;
	sightings_settle(&self->all, mark);
	Py_RETURN_NONE;
}

static PyObject *clear(struct sightings_object *self, PyObject *unused)
{
	sightings_clear(&self->all);
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{"open", (PyCFunction)open_buffer, METH_VARARGS,
	 "open(fd, size): read the buffer of this perf event, too"},
	{"follow", (PyCFunction)follow, METH_VARARGS,
	 "follow(ring, settled): the maps of the program that wakes us"},
	{"read", (PyCFunction)read_all, METH_NOARGS,
	 "read() -> [(mark, record)]: what is not settled, by one thread at a time"},
	{"take_lost", (PyCFunction)take_lost, METH_NOARGS,
	 "how many records the kernel had no room for, since the last time"},
	{"taken", (PyCFunction)taken, METH_NOARGS, "bytes of all records that were read so far"},
	{"settle", (PyCFunction)settle, METH_VARARGS,
	 "settle(mark): drop records with this mark from now on"},
	{"clear", (PyCFunction)clear, METH_NOARGS, "nothing is settled any more"},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_init, sightings_init},
	{Py_tp_dealloc, sightings_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_doc, "Files that are mapped as code, but for those that are settled."},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "cotenant._native._drain.Sightings",
	.basicsize = sizeof(struct sightings_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int binding_add_sightings(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&spec);
	int error = type ? PyModule_AddObjectRef(module, "Sightings", type) : -1;

	Py_XDECREF(type);
	return error;
}
