/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COTENANT_BINDINGS_H
#define COTENANT_BINDINGS_H

#include <Python.h>

PyObject *binding_load(PyObject *self, PyObject *args, PyObject *kwargs);
int binding_add_types(PyObject *module);
int binding_add_spans(PyObject *module);
int binding_add_sightings(PyObject *module);

#endif /* COTENANT_BINDINGS_H */
