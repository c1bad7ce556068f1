// SPDX-License-Identifier: Apache-2.0
/**
 * How Java reaches libripc.so: the library's file, the two bindings, memory with an address, guards
 * of handles. Not part of the public interface: it changes without notice.
 */
package org.libripc.internal;
