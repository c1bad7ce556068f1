// SPDX-License-Identifier: Apache-2.0

/**
 * Jetty over libripc: HTTP/1.1 and HTTP/2 between services instead of sockets. {@link
 * org.libripc.jetty.RipcConnector} is the server's side, {@link org.libripc.jetty.RipcClient} and
 * {@link org.libripc.jetty.RipcTransport} are the client's, {@link
 * org.libripc.jetty.RipcByteBufferPool} gives both memory that is sent without a copy.
 *
 * <p>docs/jetty.md is the guide, docs/wire.md ("Stream connections") the format.
 */
package org.libripc.jetty;
