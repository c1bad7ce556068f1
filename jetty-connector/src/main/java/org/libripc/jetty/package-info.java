// SPDX-License-Identifier: Apache-2.0

/**
 * Jetty over libripc: HTTP/1.1 and HTTP/2 between services instead of sockets. The server's side is
 * {@link org.libripc.jetty.RipcConnector}. The client's side is {@link
 * org.libripc.jetty.RipcClient} and {@link org.libripc.jetty.RipcTransport}. Both get memory that
 * is sent without a copy from {@link org.libripc.jetty.RipcByteBufferPool}.
 *
 * <p>docs/jetty.md is the guide; docs/wire.md ("Stream connections") specifies the format.
 */
package org.libripc.jetty;
