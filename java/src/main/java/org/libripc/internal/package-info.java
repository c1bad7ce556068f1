// SPDX-License-Identifier: Apache-2.0
/**
 * How Java reaches libripc.so: the library's file, the two bindings, memory with an address, guards
 * of handles. No part of the interface: it changes without notice.
 */
package org.libripc.internal;
