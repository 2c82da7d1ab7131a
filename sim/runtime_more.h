/* SPDX-License-Identifier: Apache-2.0 */
#define RUNTIME_MORE_FUNCTIONS(X)
