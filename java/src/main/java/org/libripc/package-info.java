// SPDX-License-Identifier: Apache-2.0
/**
 * Message passing by service ID: {@link org.libripc.Ripc} is the start, docs/java.md the guide.
 *
 * <p>What holds for every type unless it says otherwise: any thread may call. Objects with a {@code
 * close()} may be closed in any order, from any thread, more than once; what is called on a closed
 * one throws {@link org.libripc.RipcException.Closed}. Failures are {@link
 * org.libripc.RipcException}s, which carry the status and a sentence that says what to do;
 * arguments that are wrong in themselves are {@link IllegalArgumentException}s and {@link
 * NullPointerException}s. {@link Thread#interrupt} ends what waits, with {@link
 * InterruptedException}.
 */
package org.libripc;
