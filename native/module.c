// SPDX-License-Identifier: Apache-2.0
/* The functions of the Python module: converts arguments and errors, holds no logic. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "bindings.h"

/* Places to try a probe on: one that the kernel emulates, one that it steps out of line. */
__attribute__((naked, noinline, visibility("default")))
int cotenant_probe_here(void)
{
	__asm__ volatile("push %rbp\n\t"
			 "mov %rsp, %rbp\n\t"
			 "xor %eax, %eax\n\t"
			 "pop %rbp\n\t"
			 "ret");
}

__attribute__((naked, noinline, visibility("default")))
int cotenant_step_here(void)
{
	__asm__ volatile("mov %rbx, -0x18(%rsp)\n\t"
			 "xor %eax, %eax\n\t"
			 "ret");
}

static PyObject *step_here(PyObject *self, PyObject *unused)
{
	return PyLong_FromLong(cotenant_step_here());
}

static PyObject *probe_here(PyObject *self, PyObject *unused)
{
	return PyLong_FromLong(cotenant_probe_here());
}

static PyMethodDef functions[] = {
	{"load", (PyCFunction)(void (*)(void))binding_load, METH_VARARGS | METH_KEYWORDS,
	 "load(path, programs, shared, sizes, constants) -> (program fds, map fds)"},
	{"probe_here", probe_here, METH_NOARGS, "call the function that exists to be probed"},
	{"step_here", step_here, METH_NOARGS, "call the function that exists to be single-stepped"},
	{NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "cotenant._native._drain",
	.m_doc = "BPF objects into the kernel, and their rings out of it.",
	.m_size = -1,
	.m_methods = functions,
};

PyMODINIT_FUNC PyInit__drain(void)
{
	PyObject *module = PyModule_Create(&definition);

	if (!module)
		return NULL;
	if (binding_add_types(module) || binding_add_spans(module) ||
	    binding_add_sightings(module)) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
