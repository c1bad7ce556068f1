// SPDX-License-Identifier: Apache-2.0
/**
 * Message passing by service ID. Start with {@link org.libripc.Ripc}; docs/java.md is the guide.
 *
 * <p>These rules hold for every type unless it says otherwise. Any thread may call. Objects with a
 * {@code close()} may be closed in any order, from any thread, more than once; calls on a closed
 * one throw {@link org.libripc.RipcException.Closed}. Failures are {@link
 * org.libripc.RipcException}s, which carry the status and a sentence that says what to do;
 * arguments that are wrong in themselves are {@link IllegalArgumentException}s and {@link
 * NullPointerException}s. {@link Thread#interrupt} ends a wait with {@link InterruptedException}.
 */
package org.libripc;
