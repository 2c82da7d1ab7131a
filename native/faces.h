/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COTENANT_FACES_H
#define COTENANT_FACES_H

#include <Python.h>

PyObject *face_load(PyObject *self, PyObject *args, PyObject *kwargs);
int face_add_types(PyObject *module);

#endif /* COTENANT_FACES_H */
