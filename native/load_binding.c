// SPDX-License-Identifier: Apache-2.0
/* load(): one BPF object file into the kernel. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bindings.h"
#include "object.h"

typedef int (*each_fn)(struct bpf_object *object, const char *name, long long value);

static int choose(struct bpf_object *object, const char *name, long long value)
{
	return object_choose(object, name, (int)value);
}

static int share(struct bpf_object *object, const char *name, long long value)
{
	return object_share(object, name, (int)value);
}

static int resize(struct bpf_object *object, const char *name, long long value)
{
	return object_resize(object, name, (unsigned int)value);
}

/* Apply `each` to every item of a dict of str to int. */
static int for_each(PyObject *dict, struct bpf_object *object, each_fn each)
{
	PyObject *key, *value;
	Py_ssize_t at = 0;

	while (PyDict_Next(dict, &at, &key, &value)) {
		PyObject *name = PyUnicode_AsUTF8String(key);
		long long number = PyLong_AsLongLong(value);
		int error;

		if (!name || (number == -1 && PyErr_Occurred())) {
			Py_XDECREF(name);
			return -1;
		}
		error = each(object, PyBytes_AsString(name), number);
		if (error) {
			errno = -error;
			PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, key);
		}
		Py_DECREF(name);
		if (error)
			return -1;
	}
	return 0;
}

static int put_fd(PyObject *dict, const char *name, int fd)
{
	PyObject *number = PyLong_FromLong(fd >= 0 ? dup(fd) : -1);
	int error = number ? PyDict_SetItemString(dict, name, number) : -1;

	Py_XDECREF(number);
	return error;
}

static PyObject *descriptors(struct bpf_object *object)
{
	PyObject *programs = PyDict_New();
	PyObject *maps = PyDict_New();
	struct bpf_program *program;
	struct bpf_map *map;

	if (!programs || !maps)
		goto failed;
	bpf_object__for_each_program(program, object) {
		if (bpf_program__fd(program) < 0)
			continue;
		if (put_fd(programs, bpf_program__name(program), bpf_program__fd(program)))
			goto failed;
	}
	bpf_object__for_each_map(map, object)
		if (put_fd(maps, bpf_map__name(map), bpf_map__fd(map)))
			goto failed;
	return Py_BuildValue("(NN)", programs, maps);
failed:
	Py_XDECREF(programs);
	Py_XDECREF(maps);
	return NULL;
}

PyObject *binding_load(PyObject *self, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"path",  "programs",  "shared",
				"sizes", "constants", "preallocate", NULL};
	PyObject *programs, *shared, *sizes, *constants, *result = NULL;
	struct bpf_object *object;
	int error, preallocate = 0;
	const char *path;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO!O!O!O!|p", names, &path, &PyDict_Type,
					 &programs, &PyDict_Type, &shared, &PyDict_Type, &sizes,
					 &PyDict_Type, &constants, &preallocate))
		return NULL;
	object = object_open(path);
	if (!object)
		return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
	error = preallocate ? object_preallocate(object) : 0;
	if (error) {
		errno = -error;
		PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
		goto out;
	}
	if (for_each(constants, object, object_set) || for_each(programs, object, choose) ||
	    for_each(sizes, object, resize) || for_each(shared, object, share))
		goto out;
	/* The verifier takes its time, and another object may be verified meanwhile. */
	Py_BEGIN_ALLOW_THREADS
	error = bpf_object__load(object);
	Py_END_ALLOW_THREADS
	if (error) {
		/* A verifier's log is bytes of who knows what encoding. */
		PyObject *said = PyUnicode_DecodeUTF8(object_spoken(), strlen(object_spoken()),
						      "replace");
		PyObject *what = Py_BuildValue("(iNs)", -error, said, path);

		PyErr_SetObject(PyExc_OSError, what);
		Py_XDECREF(what);
		goto out;
	}
	result = descriptors(object);
out:
	bpf_object__close(object);
	return result;
}
